-- Departures and delays of the last six hours, every quarter of an hour
SELECT origin, window_start, window_end, COUNT(*) AS departures, AVG(dep_delay) AS mean_delay
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '15' MINUTES, INTERVAL '6' HOURS))
GROUP BY origin, window_start, window_end;
