-- Some aggregates cannot be merged from partials: an exact percentile needs all values of a window.
-- Such a query runs in one phase: rows are copied into their windows, and Spark aggregates them.
-- EXPLAIN names the aggregate that is the reason.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT window_start, window_end,
       PERCENTILE(dep_delay, 0.5) AS median_delay,
       PERCENTILE(dep_delay, 0.9) AS tenth_worst_delay,
       SORT_ARRAY(COLLECT_SET(carrier)) AS carriers
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '3' HOURS, INTERVAL '6' HOURS))
WHERE CAST(sched_dep AS DATE) = DATE'2013-01-01'
GROUP BY window_start, window_end
ORDER BY window_start;
