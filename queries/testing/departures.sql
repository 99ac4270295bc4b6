-- Departures and cancellations per airport and quarter of a day. A cancelled flight has no air time.
-- departures.sqlwin.yaml tests this file: sqlwin test queries/testing
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
ORDER BY window_end, origin;
