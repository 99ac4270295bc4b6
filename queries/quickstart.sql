-- The worst hours at New York's airports in 2013. For every quarter of an hour, the six hours up to
-- then: how many flights were to leave, and how late they left on average. Each flight is in 24 of
-- these windows, yet it is read and aggregated once, into its quarter of an hour.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT origin, window_start, window_end,
       COUNT(*) AS departures,
       ROUND(AVG(dep_delay), 1) AS mean_delay
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '15' MINUTES, INTERVAL '6' HOURS))
GROUP BY origin, window_start, window_end
HAVING COUNT(*) >= 50
ORDER BY mean_delay DESC, origin, window_end
LIMIT 10;
