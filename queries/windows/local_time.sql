-- Windows over instants (TIMESTAMP_LTZ) follow the wall clock of table.local-time-zone. The night of
-- 9 March 2013 lacked an hour in New York, and a day of 23 hours is still one window; the window
-- columns show local time, window_time is the last instant of the window.
SET 'table.local-time-zone' = 'America/New_York';
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT window_start, window_end, COUNT(*) AS departures,
       MIN(dep_utc) AS first_departure, MAX(dep_utc) AS last_departure
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(dep_utc), INTERVAL '1' DAY))
WHERE window_start BETWEEN TIMESTAMP_NTZ'2013-03-08' AND TIMESTAMP_NTZ'2013-03-11'
GROUP BY window_start, window_end
ORDER BY window_start;
