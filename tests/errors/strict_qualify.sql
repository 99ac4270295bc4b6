SET 'sqlwin.strict-flink' = 'true';
SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY dep_delay) AS rn
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
QUALIFY rn = 1;
