-- strategies: AUTO, ONE_PHASE
SELECT origin, window_start, window_end, COUNT(*) AS n, SUM(distance) AS miles
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '10' MINUTES))
GROUP BY origin, window_start, window_end
