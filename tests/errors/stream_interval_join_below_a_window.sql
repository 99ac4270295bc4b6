SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE clicks (page STRING, n INT, ts TIMESTAMP(3), seen TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen', 'number-of-rows' = '9');
CREATE TABLE views (n INT, ts TIMESTAMP(3), at AS CAST(ts AS TIMESTAMP_LTZ(3)), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '9');
CREATE TABLE logins (n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '9');
SELECT window_end, COUNT(*) FROM TABLE(TUMBLE((
  SELECT c.ts FROM clicks c JOIN views v ON c.n = v.n AND c.ts BETWEEN v.ts - INTERVAL '1' HOUR AND v.ts
), DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
