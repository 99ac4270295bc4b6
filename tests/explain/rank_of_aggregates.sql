WITH ranked AS (
  SELECT dest, window_end, RANK() OVER (PARTITION BY window_end ORDER BY COUNT(*) DESC) AS place
  FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY, INTERVAL '7' DAYS))
  GROUP BY dest, window_start, window_end)
SELECT ranked.dest, ranked.place FROM ranked WHERE ranked.place BETWEEN 2 AND 3 AND dest <> 'ORD'
