SELECT window_ende, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY)) GROUP BY window_end
