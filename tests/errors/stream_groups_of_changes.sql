SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE changes (op STRING, item INT, price INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
SELECT item, COUNT(*), APPROX_COUNT_DISTINCT(price)
FROM FROM_CHANGELOG(input => TABLE changes, error_handling => 'SKIP')
GROUP BY item;
