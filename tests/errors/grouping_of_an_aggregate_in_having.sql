SELECT window_end, origin, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY)) GROUP BY window_end, ROLLUP (origin) HAVING GROUPING(COUNT(*)) = 0
