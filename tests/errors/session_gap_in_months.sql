SELECT window_end, COUNT(*) AS n
FROM TABLE(SESSION(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' MONTH))
GROUP BY window_end
