CREATE TABLE clicks (page STRING, tags ARRAY<STRING>, n INT, ts TIMESTAMP_LTZ(3), seen TIMESTAMP_LTZ(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE kept (page STRING, n BIGINT) WITH ('connector' = 'postgres', 'url' = 'postgresql://localhost/none', 'table-name' = 'kept');
INSERT INTO kept SELECT page, COUNT(*) FROM clicks GROUP BY page;
