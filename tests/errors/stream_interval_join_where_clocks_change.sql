CREATE TABLE clicks (page STRING, n INT, ts TIMESTAMP(3), seen TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE views (n INT, ts TIMESTAMP(3), at AS CAST(ts AS TIMESTAMP_LTZ(3)), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE logins (n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
SET 'table.local-time-zone' = 'Europe/Berlin';
SELECT l.n FROM logins l JOIN logins m ON l.n = m.n AND l.ts BETWEEN m.ts - INTERVAL '1' HOUR AND m.ts;
