SELECT carrier, window_end, STDDEV(dep_delay) AS deviation, FIRST_VALUE(dest) AS first_to,
       MAX_BY(dest, dep_delay) AS latest_to, SUM(distance) FILTER (WHERE origin = 'EWR') AS miles
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
GROUP BY carrier, window_end
