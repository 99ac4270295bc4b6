SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE events (ts TIMESTAMP(3), k STRING, v BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
SELECT window_start, window_end, SUM(n) AS n, MAX(s) AS s
FROM TABLE(TUMBLE(
  (SELECT window_time AS t, n, s FROM (
     SELECT k, window_start, window_end, window_time, COUNT(*) AS n, SUM(v) AS s
     FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS))
     GROUP BY k, window_start, window_end, window_time) WHERE n > 1),
  DESCRIPTOR(t), INTERVAL '5' MINUTES))
GROUP BY window_start, window_end
