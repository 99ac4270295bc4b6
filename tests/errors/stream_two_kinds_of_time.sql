CREATE TABLE clicks (page STRING, tags ARRAY<STRING>, n INT, ts TIMESTAMP_LTZ(3), seen TIMESTAMP_LTZ(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE views (page BIGINT, n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE VIEW everything AS SELECT n, ts FROM views UNION ALL SELECT n, pt FROM clicks;
SELECT window_end, SUM(n)
FROM TABLE(TUMBLE(TABLE everything, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
