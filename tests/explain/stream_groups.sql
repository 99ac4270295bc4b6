SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (id INT, status STRING, amount INT) WITH ('connector' = 'datagen');
SELECT status, COUNT(*) AS n, SUM(amount) AS total, COUNT(DISTINCT id) AS ids
FROM orders
WHERE amount > 0
GROUP BY status
HAVING COUNT(*) > 1
