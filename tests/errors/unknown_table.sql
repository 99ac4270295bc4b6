SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flihgts, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_end
