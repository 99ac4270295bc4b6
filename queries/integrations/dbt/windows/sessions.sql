-- Departures to a destination without a pause of three hours
SELECT dest, window_start, window_end, COUNT(*) AS departures, MAX(dep_delay) AS worst_delay
FROM TABLE(SESSION(TABLE flights PARTITION BY dest, DESCRIPTOR(sched_dep), INTERVAL '3' HOURS))
GROUP BY dest, window_start, window_end;
