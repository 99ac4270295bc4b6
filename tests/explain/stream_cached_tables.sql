SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE clicks (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
CREATE TABLE names (k INT, name STRING) WITH (
  'connector' = 'memory', 'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '10 min');
CREATE TABLE prices (k INT, price INT) WITH ('connector' = 'memory');

SELECT c.ts, n.name, p.price
FROM clicks AS c
JOIN names AS n ON c.k = n.k
LEFT JOIN prices /*+ OPTIONS('lookup.cache' = 'FULL', 'lookup.full-cache.reload-strategy' = 'TIMED',
  'lookup.full-cache.timed-reload.iso-time' = '03:00Z') */ AS p ON c.k = p.k
WHERE c.k NOT IN (SELECT k FROM names);
