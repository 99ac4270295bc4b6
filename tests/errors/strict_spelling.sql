SET 'sqlwin.strict-flink' = 'true';
SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '100' HOUR)) GROUP BY window_start, window_end
