-- CUMULATE grows a window step by step up to a largest size and then begins anew: running totals of a
-- day, every four hours. Steps without a flight of their own are emitted too, with the total so far,
-- from an airport's first flight of the day until midnight.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT origin, window_start, window_end, COUNT(*) AS departures, SUM(distance) AS miles
FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '4' HOURS, INTERVAL '1' DAY))
WHERE sched_dep >= TIMESTAMP_NTZ'2013-07-04' AND sched_dep < TIMESTAMP_NTZ'2013-07-05'
GROUP BY origin, window_start, window_end
ORDER BY origin, window_end;
