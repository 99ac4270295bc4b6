SELECT origin, window_end, COUNT(*) AS n,
       RANK() OVER (PARTITION BY window_end ORDER BY COUNT(*) DESC) AS place
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
GROUP BY origin, window_end
