SELECT origin, window_end, COUNT(*) AS departures, MAX(dep_delay) AS delay
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '1' DAY))
GROUP BY origin, window_start, window_end;
