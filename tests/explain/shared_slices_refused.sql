
SELECT origin, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY origin, window_end
UNION ALL
SELECT carrier, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY carrier, window_end
UNION ALL
SELECT origin, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '61' MINUTES))
GROUP BY origin, window_end
UNION ALL
SELECT origin, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
WHERE distance > 1000
GROUP BY origin, window_end
