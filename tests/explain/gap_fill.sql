SELECT UPPER(origin) AS airport, window_start, window_end, COUNT(*) AS n, AVG(distance) AS miles
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '10' MINUTES))
GROUP BY origin, window_start, window_end
FILL (n = 0, miles = LOCF) FROM TIMESTAMP '2013-01-01 00:00:00' TO TIMESTAMP '2013-01-02 00:00:00'
