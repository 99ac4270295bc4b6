SELECT origin, window_end, carrier AS last_carrier
FROM (
  SELECT *, ROW_NUMBER() OVER (
    PARTITION BY window_start, window_end, origin ORDER BY sched_dep DESC) AS rn
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY)))
WHERE rn = 1
