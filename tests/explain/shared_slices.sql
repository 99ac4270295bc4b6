
SELECT origin, window_start, window_end, COUNT(*) AS n, AVG(dep_delay) AS value
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '15' MINUTES))
WHERE carrier = 'UA'
GROUP BY origin, window_start, window_end
UNION ALL
SELECT origin, window_start, window_end, COUNT(*) AS n, MAX(distance) AS value
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '1' DAY))
WHERE carrier = 'UA'
GROUP BY origin, window_start, window_end
UNION ALL
SELECT origin, window_start, window_end, COUNT(*) AS n, MAX(dep_delay) AS value
FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '10' MINUTES, INTERVAL '1' DAY))
WHERE carrier = 'UA'
GROUP BY origin, window_start, window_end
