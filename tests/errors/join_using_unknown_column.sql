SELECT window_end, l.n, r.n
FROM (SELECT origin, window_start, window_end, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY)) GROUP BY origin, window_start, window_end) AS l
JOIN (SELECT carrier, window_start, window_end, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY)) GROUP BY carrier, window_start, window_end) AS r
USING (window_start, window_end, origin)
