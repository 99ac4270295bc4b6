CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
SELECT page, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTES))
GROUP BY page, window_start, window_end FILL (n = 0) FROM TIMESTAMP '2026-01-01 00:00:00'
ORDER BY window_end;
