SELECT window_start, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
WHERE sched_dep < window_start + INTERVAL '5' MINUTES
GROUP BY window_start, window_end
