CREATE MATERIALIZED TABLE m WITH ('path' = '/nowhere/m') REFRESH_MODE = CONTINUOUS AS
SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
