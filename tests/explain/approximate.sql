-- strategies: AUTO
SELECT origin, window_start, window_end, APPROX_COUNT_DISTINCT(dest) AS destinations,
       APPROX_PERCENTILE(dep_delay, 0.5) AS median,
       PERCENTILE_APPROX(distance, ARRAY(0.25, 0.75), 100) FILTER (WHERE dep_delay > 60) AS far
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '1' DAY))
GROUP BY origin, window_start, window_end
