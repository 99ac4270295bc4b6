-- A dashboard of quarters of an hour, hours and days in one statement set. The table is read once,
-- into slices of 15 minutes; hours are merged from these, and days from hours. EXPLAIN shows
-- SharedSlices where slices are computed and Reused where they are read again.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

CREATE VIEW united AS
SELECT origin, sched_dep, dep_delay
FROM flights
WHERE carrier = 'UA' AND sched_dep < TIMESTAMP '2013-01-03';

CREATE TABLE quarters (origin STRING, window_end TIMESTAMP(3), departures BIGINT)
WITH ('connector' = 'blackhole');

CREATE TABLE hours (origin STRING, window_end TIMESTAMP(3), departures BIGINT, latest DOUBLE)
WITH ('connector' = 'print', 'print-identifier' = 'last hour');

CREATE TABLE days (origin STRING, window_end TIMESTAMP(3), departures BIGINT, mean_delay DOUBLE)
WITH ('connector' = 'print', 'print-identifier' = 'day');

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO quarters
  SELECT origin, window_end, COUNT(*)
  FROM TABLE(TUMBLE(TABLE united, DESCRIPTOR(sched_dep), INTERVAL '15' MINUTES))
  GROUP BY origin, window_start, window_end;

  INSERT INTO hours
  SELECT origin, window_end, COUNT(*), MAX(dep_delay)
  FROM TABLE(HOP(TABLE united, DESCRIPTOR(sched_dep), INTERVAL '15' MINUTES, INTERVAL '1' HOUR))
  GROUP BY origin, window_start, window_end
  ORDER BY window_end DESC, origin LIMIT 5;

  INSERT INTO days
  SELECT origin, window_end, COUNT(*), ROUND(AVG(dep_delay), 2)
  FROM TABLE(TUMBLE(TABLE united, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
  GROUP BY origin, window_start, window_end
  ORDER BY window_end, origin;
END;

EXPLAIN
SELECT h.origin, h.window_end, h.n, d.n AS day_before
FROM (SELECT origin, window_end, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE united, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
      GROUP BY origin, window_start, window_end) AS h
JOIN (SELECT origin, window_end, COUNT(*) AS n
      FROM TABLE(HOP(TABLE united, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '1' DAY))
      GROUP BY origin, window_start, window_end) AS d
  ON h.origin = d.origin AND h.window_end = d.window_end;
