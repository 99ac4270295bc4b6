SELECT window_end, COUNT(*) FROM tumble(flights, 1h) GROUP BY window_end
