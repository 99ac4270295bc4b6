-- Estimates over windows that overlap 24 times: the number of aircraft and flight numbers per day,
-- and percentiles of delays. Sketches are stored per hour and merged per day. With few rows,
-- percentiles are exact.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT origin, window_end,
       APPROX_COUNT_DISTINCT(dest) AS destinations,
       APPROX_COUNT_DISTINCT(flight, 0.02) AS flight_numbers,
       APPROX_PERCENTILE(dep_delay, 0.5) AS median_delay,
       APPROX_PERCENTILE(dep_delay, ARRAY(0.9, 0.99)) AS late,
       PERCENTILE_APPROX(distance, 0.75) FILTER (WHERE dep_delay > 60) AS far_and_late
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '1' DAY))
GROUP BY origin, window_start, window_end
ORDER BY median_delay DESC NULLS LAST, origin, window_end
LIMIT 8;
