-- COUNT, SUM and AVG of DISTINCT values, exact, over windows that overlap 288 times: a day of
-- departures that slides by five minutes, and to how many places it goes. Values are distinguished
-- in the scan and counted once for each stretch of windows that they are in.
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
