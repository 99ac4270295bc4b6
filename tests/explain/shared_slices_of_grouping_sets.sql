
SELECT origin, carrier, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_end, GROUPING SETS ((origin), (carrier))
UNION ALL
SELECT origin, carrier, window_end, MAX(distance) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
GROUP BY window_end, GROUPING SETS ((origin), (carrier))
