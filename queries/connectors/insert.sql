-- INSERT writes to a table: print shows rows as Flink does, with +I before each; blackhole discards
-- them. A statement set runs several INSERTs. EXPLAIN of an INSERT shows the plan without running
-- it.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

CREATE TABLE shown (origin STRING, day_start TIMESTAMP(3), departures BIGINT)
WITH ('connector' = 'print', 'print-identifier' = 'day');

CREATE TABLE nowhere (carrier STRING, window_end TIMESTAMP(3), miles DOUBLE)
WITH ('connector' = 'blackhole');

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO shown
  SELECT origin, window_start, COUNT(*)
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
  WHERE sched_dep < TIMESTAMP '2013-01-03'
  GROUP BY origin, window_start, window_end
  ORDER BY origin, window_start;

  INSERT INTO nowhere
  SELECT carrier, window_end, SUM(distance)
  FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '1' DAY))
  GROUP BY carrier, window_start, window_end;
END;
