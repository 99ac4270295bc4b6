SET 'sqlwin.strict-flink' = 'true';
SELECT window_end, COUNT(*) FROM TABLE(SESSION(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR)) GROUP BY window_start, window_end
