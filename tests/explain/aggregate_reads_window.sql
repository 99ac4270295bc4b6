SELECT window_start, window_end, MAX(window_end - sched_dep) AS longest
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_start, window_end
