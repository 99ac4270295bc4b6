-- Window functions read tables, views, common table expressions and subqueries, and their results
-- can be joined, ranked or windowed again. Here a view computes hourly delays by airport, and a
-- second window over window_time finds the worst hour of every week.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

CREATE VIEW hourly AS
SELECT origin, window_end AS hour_end, window_time AS event_time, AVG(dep_delay) AS mean_delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY origin, window_start, window_end, window_time
HAVING COUNT(*) >= 10;

WITH worst AS (
  SELECT origin, window_start AS week,
         MAX(mean_delay) AS mean_delay, MAX_BY(hour_end, mean_delay) AS hour_end
  FROM TABLE(TUMBLE(TABLE hourly, DESCRIPTOR(event_time), INTERVAL '7' DAYS))
  GROUP BY origin, window_start, window_end)
SELECT week, origin, hour_end, ROUND(mean_delay, 1) AS mean_delay
FROM worst
WHERE week BETWEEN TIMESTAMP '2013-06-01' AND TIMESTAMP '2013-07-15'
ORDER BY week, origin;
