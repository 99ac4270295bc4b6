SELECT window_start, window_end, COUNT(DISTINCT carrier) AS carriers
FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '6' HOURS, INTERVAL '1' DAY))
GROUP BY window_start, window_end;
