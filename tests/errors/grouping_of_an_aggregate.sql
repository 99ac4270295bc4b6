SELECT window_end, origin, GROUPING_ID(origin, COUNT(*)) AS g FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY)) GROUP BY window_end, ROLLUP (origin)
