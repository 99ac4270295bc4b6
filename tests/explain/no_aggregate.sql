SELECT flight, window_start, window_end
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
WHERE origin = 'JFK'
