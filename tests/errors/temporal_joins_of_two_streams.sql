CREATE TABLE clicks (page STRING, n INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE rates (n INT, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (n) NOT ENFORCED)
  WITH ('connector' = 'datagen');
CREATE TABLE names (n INT, name STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '5');
SELECT c.page, r.rate FROM clicks AS c LEFT JOIN rates FOR SYSTEM_TIME AS OF c.ts AS r ON c.n = r.n
  JOIN rates FOR SYSTEM_TIME AS OF c.ts AS q ON c.n = q.n;
