-- TUMBLE divides time into adjacent windows. Here: departures and cancellations per hour at Kennedy
-- airport, on the day of a blizzard. A cancelled flight has no air time. Hours without flights have
-- no row.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT window_start, window_end,
       COUNT(*) AS departures,
       COUNT(*) FILTER (WHERE air_time IS NULL) AS cancelled
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
WHERE origin = 'JFK' AND sched_dep >= TIMESTAMP '2013-02-08' AND sched_dep < TIMESTAMP '2013-02-09'
GROUP BY window_start, window_end
ORDER BY window_start;
