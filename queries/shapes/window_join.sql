-- Join the results of two window aggregations by window: the departures of two carriers per day.
-- EXPLAIN shows WindowJoin. LEFT, RIGHT, FULL, SEMI and ANTI joins, IN and EXISTS work too. The
-- second query joins a static table, the names of the airports.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

WITH united AS (
  SELECT origin, window_start, window_end, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
  WHERE carrier = 'UA'
  GROUP BY origin, window_start, window_end),
delta AS (
  SELECT origin, window_start, window_end, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
  WHERE carrier = 'DL'
  GROUP BY origin, window_start, window_end)
SELECT united.origin, united.window_start, united.n AS united, delta.n AS delta
FROM united
JOIN delta
  ON united.window_start = delta.window_start
  AND united.window_end = delta.window_end
  AND united.origin = delta.origin
WHERE delta.n > 3 * united.n
ORDER BY delta.n DESC, united.window_start, united.origin
LIMIT 5;

SELECT names.name, MAX(f.n) AS busiest_hour
FROM (
  SELECT origin, window_end, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
  GROUP BY origin, window_end) AS f
JOIN VALUES ('EWR', 'Newark'), ('JFK', 'Kennedy'), ('LGA', 'La Guardia') AS names(code, name)
  ON f.origin = names.code
GROUP BY names.name
ORDER BY names.name;
