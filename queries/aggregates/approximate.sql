-- Estimates over windows that overlap 24 times: about how many aircraft and flight numbers a day
-- has, and how late its flights leave. Registers and values are kept by the hour; a day is put
-- together from them. With fewer rows than the accuracy asks for, percentiles are exact.
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
