CREATE TABLE orders (id INT, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'datagen', 'number-of-rows' = '10');
CREATE TABLE shipments (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SET 'execution.runtime-mode' = 'streaming';
SELECT o.id, o.amount, s.ts AS shipped FROM orders AS o LEFT JOIN shipments AS s
  ON o.id = s.id AND s.ts BETWEEN o.ts AND o.ts + INTERVAL '4' HOUR;
