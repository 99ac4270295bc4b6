SELECT window_start, window_end, CORR(dep_delay, arr_delay) AS related
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '1' DAY))
GROUP BY window_start, window_end
