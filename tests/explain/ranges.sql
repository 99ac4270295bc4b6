SELECT origin, name, window_start, window_end, COUNT(*) AS n
FROM TABLE(RANGES(
  TABLE flights, DESCRIPTOR(sched_dep),
  (SELECT 'summer' AS name, TIMESTAMP '2013-06-21' AS starts, TIMESTAMP '2013-09-22' AS ends),
  DESCRIPTOR(starts, ends)))
WHERE origin <> 'JFK'
GROUP BY origin, name, window_start, window_end
