SELECT a.origin, b.carrier, a.window_end, a.delay - b.delay AS apart
FROM (
  SELECT origin, window_start, window_end, AVG(dep_delay) AS delay
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
  GROUP BY origin, window_start, window_end) AS a
FULL OUTER JOIN (
  SELECT origin, carrier, window_start, window_end, AVG(dep_delay) AS delay
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
  GROUP BY origin, carrier, window_start, window_end) AS b
ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.origin = b.origin
  AND b.delay > 0
