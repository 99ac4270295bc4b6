-- Group window functions, the style of Flink before 1.13: the window is in GROUP BY, and functions
-- such as TUMBLE_START return its bounds. They run like window table functions, with slices. The
-- second query aggregates daily windows by week.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT origin,
       TUMBLE_START(sched_dep, INTERVAL '1' DAY) AS day,
       COUNT(*) AS departures
FROM flights
WHERE dep_delay > 60
GROUP BY TUMBLE(sched_dep, INTERVAL '1' DAY), origin
HAVING COUNT(*) >= 120
ORDER BY day, origin
LIMIT 5;

SELECT TUMBLE_END(day, INTERVAL '7' DAYS) AS week_end, MAX(departures) AS busiest_day
FROM (
  SELECT TUMBLE_ROWTIME(sched_dep, INTERVAL '1' DAY) AS day, COUNT(*) AS departures
  FROM flights
  GROUP BY TUMBLE(sched_dep, INTERVAL '1' DAY))
GROUP BY TUMBLE(day, INTERVAL '7' DAYS)
ORDER BY week_end
LIMIT 5;
