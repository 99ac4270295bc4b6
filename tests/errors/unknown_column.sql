SELECT window_end,
       AVG(dep_dealy) AS mean_delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_end
