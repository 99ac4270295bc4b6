SELECT dest, window_start, window_end, COUNT(*) AS departures
FROM TABLE(SESSION(TABLE flights PARTITION BY dest, DESCRIPTOR(sched_dep), INTERVAL '2' HOURS))
WHERE carrier = 'HA' OR dest = 'BOS'
GROUP BY dest, window_start, window_end;
