SELECT dest, window_end, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY dest ORDER BY n DESC) AS rn
  FROM (
    SELECT dest, window_start, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
    GROUP BY dest, window_start, window_end))
WHERE rn = 1
