SELECT l.flight, l.window_end
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR)) AS l
WHERE l.origin = 'JFK' AND l.dest IN (
  SELECT r.dest
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR)) AS r
  WHERE r.origin = 'LGA' AND l.window_start = r.window_start AND l.window_end = r.window_end)
