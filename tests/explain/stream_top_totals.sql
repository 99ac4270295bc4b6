SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (id INT, status STRING, amount INT, note STRING) WITH ('connector' = 'datagen');
SELECT status, note, total, rn
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY status ORDER BY total DESC) AS rn
  FROM (SELECT status, note, SUM(amount) AS total FROM orders GROUP BY status, note)
)
WHERE rn <= 3
