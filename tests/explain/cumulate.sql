-- strategies: AUTO, ONE_PHASE
SELECT origin, window_start, window_end, window_time, COUNT(*) AS n
FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '2' HOURS, INTERVAL '1' DAY, INTERVAL '-4' HOURS))
GROUP BY origin, window_start, window_end, window_time
