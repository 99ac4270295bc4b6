-- The six hours with the longest delays at New York's airports in 2013. A window begins every 15
-- minutes, so each flight is in 24 windows, but it is read and aggregated only once.
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
