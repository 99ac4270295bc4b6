CREATE TABLE clicks (page STRING, ts TIMESTAMP_LTZ(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
SELECT a.page, b.page
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) a
JOIN TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(pt), INTERVAL '1' MINUTE)) b
ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.page = b.page;
