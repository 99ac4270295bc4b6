SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
WHERE carrier IN (SELECT carrier FROM flights GROUP BY carrier HAVING COUNT(*) > 30000)
GROUP BY window_end
