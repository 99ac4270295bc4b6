CREATE TABLE orders (id INT, currency STRING, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'datagen', 'number-of-rows' = '10');
CREATE TABLE rates (currency STRING, rate INT, note STRING, since TIMESTAMP(3), WATERMARK FOR since AS since,
  PRIMARY KEY (currency) NOT ENFORCED) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SET 'execution.runtime-mode' = 'streaming';
SELECT o.id, o.amount * r.rate AS total FROM orders AS o
  LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency AND r.rate > 0;
