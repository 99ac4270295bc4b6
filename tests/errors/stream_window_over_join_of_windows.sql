CREATE TABLE clicks (page STRING, tags ARRAY<STRING>, n INT, ts TIMESTAMP_LTZ(3), seen TIMESTAMP_LTZ(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
SELECT window_end, COUNT(*)
FROM TABLE(TUMBLE(
  (SELECT a.window_time AS at, a.n, b.x
   FROM (SELECT page, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end, window_time) a
   JOIN (VALUES ('home', 1)) b (page, x) ON a.page = b.page),
  DESCRIPTOR(at), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
