SELECT origin, window_start, window_end, COUNT(*) AS departures, AVG(dep_delay) AS delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
WHERE carrier <> 'UA'
GROUP BY origin, window_start, window_end
HAVING COUNT(*) > 10
ORDER BY window_end, origin;
