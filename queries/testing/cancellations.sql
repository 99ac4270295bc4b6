-- The next version of departures.sql: only the airports and hours with cancelled flights.
-- sqlwin test --simulate 5 queries/testing/departures.sql --then queries/testing/cancellations.sql
CREATE TABLE flights (
  sched_dep TIMESTAMP(3),
  origin STRING,
  air_time INT,
  WATERMARK FOR sched_dep AS sched_dep - INTERVAL '1' DAY
) WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT origin, window_start, window_end,
       COUNT(*) AS departures, COUNT(*) - COUNT(air_time) AS cancelled
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '6' HOURS))
WHERE sched_dep < TIMESTAMP '2013-01-02'
GROUP BY origin, window_start, window_end
HAVING COUNT(air_time) < COUNT(*)
ORDER BY window_end, origin;
