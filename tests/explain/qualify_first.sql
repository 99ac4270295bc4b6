SELECT origin, window_end, carrier AS first_carrier
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end, origin ORDER BY sched_dep) = 1
