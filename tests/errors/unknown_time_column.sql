SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dap), INTERVAL '1' HOUR))
GROUP BY window_end
