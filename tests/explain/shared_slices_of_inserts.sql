
CREATE TABLE hours (origin STRING, ends TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');
CREATE TABLE days (origin STRING, ends TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');

EXPLAIN STATEMENT SET
BEGIN
  INSERT INTO hours
  SELECT origin, window_end, COUNT(*)
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
  GROUP BY origin, window_end;

  INSERT INTO days
  SELECT origin, window_end, COUNT(DISTINCT carrier)
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
  GROUP BY origin, window_end;
END;
