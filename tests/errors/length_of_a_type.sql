SELECT window_end, MAX(CAST(dest AS VARCHAR(DATE '2024-01-01'))) AS m
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
GROUP BY window_start, window_end
