-- Totals and their parts in each window: CUBE, ROLLUP and GROUPING SETS. Each row is aggregated
-- once into its slice, by all keys; the sets are merged from these partials. GROUPING distinguishes
-- the NULL of a total from a NULL in the data.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT window_end,
       CASE WHEN GROUPING(origin) = 1 THEN 'all airports' ELSE origin END AS origin,
       COUNT(*) AS departures,
       COUNT(DISTINCT dest) AS destinations
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '12' HOURS, INTERVAL '1' DAY))
GROUP BY window_start, window_end, GROUPING SETS ((origin), ())
HAVING COUNT(*) > 950
ORDER BY window_end, origin;
