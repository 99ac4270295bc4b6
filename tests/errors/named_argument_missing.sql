SELECT window_end, COUNT(*) AS n
FROM TABLE(HOP(DATA => TABLE flights, TIMECOL => DESCRIPTOR(sched_dep), SIZE => INTERVAL '1' HOUR))
GROUP BY window_end
