SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBEL(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY)) GROUP BY window_end
