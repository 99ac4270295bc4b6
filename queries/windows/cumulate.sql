-- CUMULATE extends a window step by step up to its size and then begins anew: running totals of a
-- day, every four hours. After an airport's first flight of the day, each step is emitted until
-- midnight, even without new flights.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT origin, window_start, window_end, COUNT(*) AS departures, SUM(distance) AS miles
FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '4' HOURS, INTERVAL '1' DAY))
WHERE sched_dep >= TIMESTAMP '2013-07-04' AND sched_dep < TIMESTAMP '2013-07-05'
GROUP BY origin, window_start, window_end
ORDER BY origin, window_end;
