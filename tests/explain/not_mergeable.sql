SELECT window_start, window_end, PERCENTILE(dep_delay, 0.5) AS median
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '1' DAY))
GROUP BY window_start, window_end
