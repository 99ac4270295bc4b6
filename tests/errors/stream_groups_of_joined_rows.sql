SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE readings (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'readings', 'format' = 'parquet');
CREATE TABLE names (k STRING, name STRING)
WITH ('connector' = 'filesystem', 'path' = 'names', 'format' = 'parquet');
SELECT n.name, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' HOUR)) r JOIN names n ON r.k = n.k
GROUP BY n.name, window_start, window_end;
