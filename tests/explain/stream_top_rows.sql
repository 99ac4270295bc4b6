SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (id INT, status STRING, amount INT, note STRING) WITH ('connector' = 'datagen');
SELECT status, id, amount
FROM orders
QUALIFY ROW_NUMBER() OVER (PARTITION BY status ORDER BY amount DESC) <= 3
