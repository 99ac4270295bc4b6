SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (id INT, price INT, ts TIMESTAMP(3))
WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'debezium-json',
  'properties.bootstrap.servers' = 'localhost:9092');
SELECT window_end, SUM(price) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
