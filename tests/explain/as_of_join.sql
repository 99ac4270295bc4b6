SELECT f.origin, f.sched_dep, h.n
FROM flights AS f ASOF LEFT JOIN (
  SELECT origin, window_end, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
  GROUP BY origin, window_end) AS h
ON f.origin = h.origin AND f.sched_dep >= h.window_end AND h.window_end > f.sched_dep - INTERVAL '1' DAY
