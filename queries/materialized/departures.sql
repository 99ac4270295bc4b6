-- A materialized table stores a window aggregation as slices, in a Delta table (pip install
-- 'sqlwin[lake]'). It answers queries over the same table whose windows consist of these slices:
-- here six-hour windows by airport, from hours by airport and carrier. EXPLAIN shows SliceScan.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

CREATE MATERIALIZED TABLE IF NOT EXISTS departures_by_hour
WITH ('path' = 'spark-warehouse/departures_by_hour')
FRESHNESS = INTERVAL '10' MINUTE
AS SELECT origin, carrier, window_start, window_end,
          COUNT(*) AS departures, SUM(distance) AS miles, AVG(dep_delay) AS delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY origin, carrier, window_start, window_end;

SELECT * FROM departures_by_hour
WHERE origin = 'JFK' AND carrier = 'B6' AND window_end <= TIMESTAMP '2013-01-01 09:00:00'
ORDER BY window_start;

SELECT origin, window_start, window_end, COUNT(*) AS departures, SUM(distance) AS miles
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '3' HOURS, INTERVAL '6' HOURS))
GROUP BY origin, window_start, window_end
HAVING window_end <= TIMESTAMP '2013-01-01 12:00:00'
ORDER BY origin, window_start;

ALTER MATERIALIZED TABLE departures_by_hour REFRESH;

DROP MATERIALIZED TABLE departures_by_hour;
