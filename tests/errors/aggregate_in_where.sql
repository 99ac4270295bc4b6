SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY)) WHERE COUNT(*) > 3 GROUP BY window_end
