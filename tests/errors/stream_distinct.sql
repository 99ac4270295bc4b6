CREATE TABLE clicks (page STRING, tags ARRAY<STRING>, n INT, ts TIMESTAMP_LTZ(3), seen TIMESTAMP_LTZ(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
SELECT DISTINCT page, tags
FROM clicks;
