CREATE MATERIALIZED TABLE m WITH ('path' = '/nowhere/m') AS
SELECT window_end, MODE(carrier) AS most
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
