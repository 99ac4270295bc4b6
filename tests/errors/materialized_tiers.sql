CREATE MATERIALIZED TABLE m WITH ('path' = '/nowhere/m', 'slices.tiers' = '1 h for 7 d, 90 min') AS
SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
