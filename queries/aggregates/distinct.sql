-- Exact COUNT, SUM and AVG of DISTINCT values over windows that overlap 288 times: departures and
-- destinations of 24 hours, every five minutes. The scan finds the distinct values of each slice,
-- and each value is counted once for all consecutive windows that contain it.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT origin, window_end,
       COUNT(DISTINCT dest) AS destinations,
       COUNT(DISTINCT dest) FILTER (WHERE distance > 2000) AS far_destinations,
       COUNT(DISTINCT carrier, flight) AS flight_numbers,
       SUM(DISTINCT distance) AS miles,
       ROUND(AVG(DISTINCT distance), 1) AS mean_miles
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '5' MINUTES, INTERVAL '1' DAY))
GROUP BY origin, window_start, window_end
ORDER BY destinations DESC, miles DESC, origin, window_end
LIMIT 8;
