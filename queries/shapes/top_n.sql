-- Top-N of each window, as in Flink: ROW_NUMBER partitioned by the window, and a condition on it in
-- the outer query. Here: the three destinations with the most departures per half day.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT window_start, place, dest, departures
FROM (
  SELECT *, ROW_NUMBER() OVER (
    PARTITION BY window_start, window_end ORDER BY departures DESC, dest) AS place
  FROM (
    SELECT dest, window_start, window_end, COUNT(*) AS departures
    FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '12' HOURS))
    GROUP BY dest, window_start, window_end))
WHERE place <= 3 AND window_start < TIMESTAMP '2013-01-03'
ORDER BY window_start, place;
