CREATE TABLE clicks (page STRING, tags ARRAY<STRING>, n INT, ts TIMESTAMP_LTZ(3), seen TIMESTAMP_LTZ(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE kept (page STRING, n INT) WITH ('connector' = 'filesystem', 'path' = '/nowhere/kept', 'format' = 'json');
INSERT INTO kept SELECT page, n FROM clicks QUALIFY ROW_NUMBER() OVER (PARTITION BY page ORDER BY ts DESC) = 1;
