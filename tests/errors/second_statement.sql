-- the place is given in the whole file
SET 'table.optimizer.agg-phase-strategy' = 'AUTO';

SELECT window_end, COUNT(*)
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '0' MINUTES, INTERVAL '1' HOUR))
GROUP BY window_end;
