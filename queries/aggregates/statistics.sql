-- Aggregates that are merged from slices: means, deviations, extremes and their rows, first and
-- last values, conditions. All are computed over overlapping windows in one pass. MAX_BY and
-- LAST_VALUE are deterministic, even with ties.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT carrier, window_end,
       COUNT(*) AS flights,
       COUNT(dep_delay) AS flown,
       AVG(dep_delay) AS mean_delay,
       ROUND(STDDEV_SAMP(dep_delay), 6) AS deviation,
       MIN(dep_delay) AS earliest,
       MAX(dep_delay) AS latest,
       MAX_BY(dest, dep_delay) AS latest_to,
       FIRST_VALUE(dest) AS first_to,
       LAST_VALUE(tailnum) IGNORE NULLS AS last_plane,
       BOOL_OR(arr_delay > 120) AS any_two_hours_late,
       SUM(distance) FILTER (WHERE origin = 'EWR') AS miles_from_newark
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '6' HOURS, INTERVAL '12' HOURS))
WHERE carrier IN ('UA', 'AA', 'B6')
GROUP BY carrier, window_start, window_end
HAVING window_end BETWEEN TIMESTAMP '2013-06-01 12:00:00' AND TIMESTAMP '2013-06-02'
ORDER BY carrier, window_end;
