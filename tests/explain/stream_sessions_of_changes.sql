SET 'execution.runtime-mode' = 'streaming';
SET 'table.exec.emit.allow-lateness' = '1 min';
CREATE TABLE changes (op STRING, item INT, price INT, wait INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
CREATE VIEW orders AS SELECT * FROM FROM_CHANGELOG(input => TABLE changes, op_mapping => MAP[
  'c', 'INSERT', 'd', 'DELETE'], error_handling => 'SKIP');
SELECT item, window_start, window_end, SUM(price) AS total
FROM TABLE(SESSION(TABLE orders PARTITION BY item, DESCRIPTOR(ts), wait * INTERVAL '1' MINUTE))
GROUP BY item, window_start, window_end
