SELECT origin, window_start, window_end, COUNT(*) AS n
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '5' MINUTES, INTERVAL '1' HOUR))
WHERE carrier = 'AA' AND window_start >= TIMESTAMP_NTZ'2013-06-01' AND (dep_delay > 0 OR dep_delay IS NULL)
GROUP BY origin, window_start, window_end
HAVING COUNT(*) > 2
