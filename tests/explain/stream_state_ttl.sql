SET 'execution.runtime-mode' = 'streaming';
SET 'table.exec.state.ttl' = '12 h';
CREATE TABLE orders (id INT, status STRING, amount INT) WITH ('connector' = 'datagen');
SELECT /*+ STATE_TTL('o' = '1 d') */ status, COUNT(*) AS n
FROM (SELECT * FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY amount DESC) = 1) AS o
GROUP BY status
