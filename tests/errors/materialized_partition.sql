CREATE MATERIALIZED TABLE m PARTITIONED BY (carrier) WITH ('path' = '/nowhere/m') AS
SELECT origin, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY origin, window_start, window_end;
