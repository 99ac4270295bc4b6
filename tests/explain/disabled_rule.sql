SET 'sqlwin.optimizer.disabled-rules' = 'prune_aggregate_input,pull_window_filter_above_aggregate';
SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
WHERE window_end < TIMESTAMP_NTZ'2013-02-01'
GROUP BY window_end;
RESET 'sqlwin.optimizer.disabled-rules'
