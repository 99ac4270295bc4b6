SELECT origin, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
GROUP BY ROLLUP (window_start, window_end, origin)
