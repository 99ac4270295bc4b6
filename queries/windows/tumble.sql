-- TUMBLE cuts time into windows that touch and never overlap. Here: departures and cancellations at
-- Kennedy airport for every hour of the day on which a blizzard reached the city. A cancelled flight
-- has no air time. Hours without flights give no row: there are no empty windows.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT window_start, window_end,
       COUNT(*) AS departures,
       COUNT(*) FILTER (WHERE air_time IS NULL) AS cancelled
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
WHERE origin = 'JFK' AND sched_dep >= TIMESTAMP_NTZ'2013-02-08' AND sched_dep < TIMESTAMP_NTZ'2013-02-09'
GROUP BY window_start, window_end
ORDER BY window_start;
