SET 'execution.runtime-mode' = 'streaming';
SET 'table.exec.state.ttl' = '1 d';
CREATE TABLE orders (id INT, status STRING, amount INT, note STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
SELECT status, window_end, COUNT(*) AS n, SUM(amount) AS total
FROM TABLE(TUMBLE((
  SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts) AS r FROM orders WHERE amount > 0)
  WHERE r = 1
), DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY status, window_start, window_end
