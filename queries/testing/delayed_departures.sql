-- Departures per airport and hour, by their schedule, as a stream that gets a flight when it leaves.
-- How long a window must wait for delayed flights says
-- sqlwin advise --arrival left_at --every '1 min' queries/testing/delayed_departures.sql
CREATE TABLE flights (
  sched_dep TIMESTAMP(3),
  origin STRING,
  dep_delay INT,
  left_at AS sched_dep + INTERVAL '1' MINUTE * COALESCE(dep_delay, 0),
  WATERMARK FOR sched_dep AS sched_dep - INTERVAL '30' MINUTES
) WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT origin, window_start, window_end, COUNT(*) AS departures
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
WHERE sched_dep < TIMESTAMP '2013-02-01'
GROUP BY origin, window_start, window_end
ORDER BY window_end, origin
LIMIT 10;
