SELECT window_start, window_end, MODE(dep_delay) AS most_frequent
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '1' DAY))
GROUP BY window_start, window_end
