-- the groups are not those of the sessions, and the filter is on single rows
SELECT window_start, window_end, COUNT(*) AS flights
FROM TABLE(SESSION(TABLE flights PARTITION BY origin, DESCRIPTOR(sched_dep), INTERVAL '10' MINUTES))
WHERE dep_delay > 0
GROUP BY window_start, window_end
