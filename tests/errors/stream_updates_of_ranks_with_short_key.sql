CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
SET 'table.exec.emit.allow-lateness' = '1 min';
CREATE TABLE most (page STRING, until TIMESTAMP(3), n BIGINT, PRIMARY KEY (until) NOT ENFORCED) WITH ('connector' = 'postgres', 'url' = 'postgresql://localhost/shop', 'table-name' = 'most');
INSERT INTO most
SELECT page, window_end, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS place
  FROM (SELECT page, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end))
WHERE place <= 3;
