SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE counts (page STRING, ends TIMESTAMP(3), n BIGINT, PRIMARY KEY (page, ends) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = '/tmp/nothing-is-written-here');
CREATE TABLE shown (page STRING, ends TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');
EXPLAIN STATEMENT SET
BEGIN
  INSERT INTO counts SELECT page, window_end, COUNT(*)
  FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY page, window_start, window_end;
  INSERT INTO shown SELECT page, window_end, COUNT(*)
  FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY page, window_start, window_end;
END;
