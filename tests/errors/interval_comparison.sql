SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY)) WHERE dep_delay > INTERVAL '1' HOUR GROUP BY window_end
