-- strategies: AUTO, ONE_PHASE
SELECT origin, window_start, window_end, COUNT(*) AS departures
FROM TABLE(SESSION(TABLE flights PARTITION BY origin, DESCRIPTOR(sched_dep),
  CASE WHEN carrier = 'UA' THEN INTERVAL '10' MINUTES ELSE INTERVAL '5' MINUTES END))
GROUP BY origin, window_start, window_end
