WITH a AS (
  SELECT origin, window_end, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
  GROUP BY origin, window_end),
b AS (
  SELECT origin, window_end, COUNT(*) AS n
  FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY, INTERVAL '7' DAYS))
  GROUP BY origin, window_end)
SELECT a.origin, a.window_end, a.n, b.n AS week
FROM a JOIN b ON a.origin = b.origin AND a.window_end = b.window_end
