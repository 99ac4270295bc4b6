SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, sched_dep, INTERVAL '1' HOUR))
GROUP BY window_end
