-- Arguments can have names, in any order after DATA. The size of this HOP is not a multiple of its
-- slide: a window of 90 minutes begins every hour. Its slices are 30 minutes wide, because windows
-- begin or end at every half hour.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT window_start, window_end, COUNT(*) AS departures, AVG(dep_delay) AS mean_delay
FROM TABLE(HOP(
  DATA => TABLE flights,
  TIMECOL => DESCRIPTOR(sched_dep),
  SIZE => INTERVAL '90' MINUTES,
  SLIDE => INTERVAL '1' HOUR))
WHERE origin = 'LGA' AND CAST(sched_dep AS DATE) = DATE'2013-03-01'
GROUP BY window_start, window_end
ORDER BY window_start;
