-- strategies: AUTO, ONE_PHASE
SELECT origin, carrier, window_start, window_end, AVG(dep_delay) AS mean_delay
FROM TABLE(SESSION(TABLE flights PARTITION BY origin, DESCRIPTOR(sched_dep), INTERVAL '10' MINUTES))
WHERE origin <> 'JFK'
GROUP BY origin, carrier, window_start, window_end
