WITH hourly AS (
  SELECT origin, window_time AS t, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
  GROUP BY origin, window_end, window_time)
SELECT origin, window_end, MAX(n) AS busiest
FROM TABLE(TUMBLE(TABLE hourly, DESCRIPTOR(t), INTERVAL '1' DAY))
GROUP BY origin, window_end
