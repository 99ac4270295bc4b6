CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE views (page STRING, ts TIMESTAMP(3)) WITH ('connector' = 'datagen');
SELECT * FROM clicks AS c JOIN views AS v
  ON c.page = v.page AND c.ts BETWEEN v.ts - INTERVAL '1' HOUR AND v.ts;
