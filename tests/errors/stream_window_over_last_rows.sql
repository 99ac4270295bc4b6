CREATE TABLE clicks (page STRING, tags ARRAY<STRING>, n INT, ts TIMESTAMP_LTZ(3), seen TIMESTAMP_LTZ(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE((
  SELECT page, n, ts FROM clicks QUALIFY ROW_NUMBER() OVER (PARTITION BY page ORDER BY ts DESC) = 1
), DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
