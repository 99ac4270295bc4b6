SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), SIZE => INTERVAL '1' HOUR))
GROUP BY window_end
