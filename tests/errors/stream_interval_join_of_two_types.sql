CREATE TABLE clicks (page STRING, n INT, ts TIMESTAMP(3), seen TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE views (n INT, ts TIMESTAMP(3), at AS CAST(ts AS TIMESTAMP_LTZ(3)), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE logins (n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
SELECT c.page, v.n
FROM clicks c JOIN views v ON c.n = v.n AND c.ts BETWEEN v.at - INTERVAL '1' HOUR AND v.at;
