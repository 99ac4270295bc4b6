-- A Delta table, by the package deltalake (pip install 'sqlwin[lake]'): its columns come from its
-- log, which also says which files a query needs. 'version' or 'timestamp' reads an older one.
CREATE TABLE departures WITH ('connector' = 'delta', 'path' = 'queries/data/departures');

SELECT origin, window_start, COUNT(*) AS departures, SUM(distance) AS miles
FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(sched_dep), INTERVAL '12' HOURS))
WHERE origin IN ('JFK', 'LGA')
GROUP BY origin, window_start, window_end
ORDER BY origin, window_start;

SELECT COUNT(*) AS departures, MAX(sched_dep) AS last_one
FROM departures /*+ OPTIONS('version' = '0') */;
