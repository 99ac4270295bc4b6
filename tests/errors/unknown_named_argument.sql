SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(DATA => TABLE flights, TIMECOL => DESCRIPTOR(sched_dep), SIEZ => INTERVAL '1' HOUR))
GROUP BY window_end
