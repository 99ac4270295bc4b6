CREATE MATERIALIZED TABLE m WITH ('path' = '/nowhere/m') AS
SELECT window_end, origin, SUM(distance) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, ROLLUP (origin);
