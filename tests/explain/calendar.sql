-- month to date by day, and by that a HOP over months
SELECT c.window_end, c.origin, c.departures, h.mean_delay
FROM (
  SELECT origin, window_start, window_end, COUNT(*) AS departures
  FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY, INTERVAL '1' MONTH))
  GROUP BY origin, window_start, window_end
) c JOIN (
  SELECT origin, window_start, window_end, AVG(dep_delay) AS mean_delay
  FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '2' MONTHS, INTERVAL '1' YEAR,
    INTERVAL '1' MONTH))
  GROUP BY origin, window_start, window_end
) h ON c.origin = h.origin AND c.window_end = h.window_end
