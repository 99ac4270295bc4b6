CREATE TABLE clicks (page STRING, tags ARRAY<STRING>, n INT, ts TIMESTAMP_LTZ(3), seen TIMESTAMP_LTZ(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
SET 'table.exec.emit.early-fire.enabled' = 'true';
SET 'table.exec.emit.early-fire.delay' = '10 s';
SELECT window_end, SUM(n)
FROM TABLE(TUMBLE(
  (SELECT window_time AS at, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, window_time),
  DESCRIPTOR(at), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
