-- Windows over instants (TIMESTAMP_LTZ) use the wall clock of table.local-time-zone. In New York,
-- 10 March 2013 had only 23 hours, and is still one window. window_start and window_end are local
-- times; window_time is the last instant of the window.
SET 'table.local-time-zone' = 'America/New_York';
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT window_start, window_end, COUNT(*) AS departures,
       MIN(dep_utc) AS first_departure, MAX(dep_utc) AS last_departure
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(dep_utc), INTERVAL '1' DAY))
WHERE window_start BETWEEN TIMESTAMP '2013-03-08' AND TIMESTAMP '2013-03-11'
GROUP BY window_start, window_end
ORDER BY window_start;
