-- strategies: AUTO, ONE_PHASE, TWO_PHASE
SELECT origin, window_start, window_end, AVG(dep_delay) AS mean_delay, COUNT(dep_delay) AS flown
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '5' MINUTES, INTERVAL '1' HOUR))
GROUP BY origin, window_start, window_end
