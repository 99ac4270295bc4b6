SELECT window_end, COUNT(*) FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY)) GROUP BY window_end
