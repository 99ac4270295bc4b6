SELECT window_end, SUM(1 / (distance - distance)) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
GROUP BY window_end
