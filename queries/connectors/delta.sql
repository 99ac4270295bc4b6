-- A Delta table, read with the package deltalake (pip install 'sqlwin[lake]'). Columns come from
-- its log, which also limits the files to read. 'version' or 'timestamp' reads an older version.
CREATE TABLE departures WITH ('connector' = 'delta', 'path' = 'queries/data/departures');

SELECT origin, window_start, COUNT(*) AS departures, SUM(distance) AS miles
FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(sched_dep), INTERVAL '12' HOURS))
WHERE origin IN ('JFK', 'LGA')
GROUP BY origin, window_start, window_end
ORDER BY origin, window_start;

SELECT COUNT(*) AS departures, MAX(sched_dep) AS last_one
FROM departures /*+ OPTIONS('version' = '0') */;
