CREATE TABLE clicks (page STRING, n INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE rates (n INT, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (n) NOT ENFORCED)
  WITH ('connector' = 'datagen', 'number-of-rows' = '5');
CREATE TABLE names (n INT, name STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '5');
SELECT c.page, r.name FROM clicks AS c JOIN names FOR SYSTEM_TIME AS OF c.ts AS r ON c.n = r.n;
