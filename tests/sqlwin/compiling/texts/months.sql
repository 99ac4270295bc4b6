SELECT carrier, window_start, window_end, COUNT(*) AS departures
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' MONTH, INTERVAL '1' YEAR))
GROUP BY carrier, window_start, window_end;
