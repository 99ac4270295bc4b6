SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE events (ts TIMESTAMP(3), k STRING, v BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE VIEW counts AS SELECT k, window_start, window_end, COUNT(*) AS n
FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end;
SELECT k, most, place FROM (
  SELECT *, RANK() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, k) AS place
  FROM (SELECT a.k, a.n, b.most, a.window_start, a.window_end FROM counts AS a
        LEFT JOIN (SELECT MAX(n) AS most, COUNT(DISTINCT n) AS d, window_start, window_end
                   FROM counts WHERE n > 1 GROUP BY window_start, window_end) AS b
        ON a.window_start = b.window_start AND a.window_end = b.window_end))
WHERE place <= 2
