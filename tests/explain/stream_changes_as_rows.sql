SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (item INT, price INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE history (code STRING, item INT, total BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'history', 'format' = 'json');
INSERT INTO history SELECT * FROM TO_CHANGELOG(
  input => (SELECT item, SUM(price) AS total FROM orders GROUP BY item),
  op_mapping => MAP['INSERT, UPDATE_AFTER', 'u', 'DELETE', 'd'])
