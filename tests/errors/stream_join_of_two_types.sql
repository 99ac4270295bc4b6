CREATE TABLE clicks (page STRING, tags ARRAY<STRING>, n INT, ts TIMESTAMP_LTZ(3), seen TIMESTAMP_LTZ(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE views (page BIGINT, n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
SELECT a.page
FROM (SELECT page, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end) a
JOIN (SELECT n AS page, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY n, window_start, window_end) b
ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.page = b.page;
