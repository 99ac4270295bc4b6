-- An offset, the last argument, shifts all windows. Here an airport's day begins at four in the
-- morning, so flights after midnight belong to the day before. INTERVAL '-20' HOURS would give the
-- same days.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT window_start, window_end, COUNT(*) AS departures, MAX(dep_delay) AS worst_delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY, INTERVAL '4' HOURS))
WHERE sched_dep >= TIMESTAMP '2013-12-24 04:00:00'
GROUP BY window_start, window_end
ORDER BY window_start;
