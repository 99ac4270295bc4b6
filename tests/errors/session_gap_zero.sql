SELECT window_end, COUNT(*) AS n
FROM TABLE(SESSION(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '0' SECOND))
GROUP BY window_end
