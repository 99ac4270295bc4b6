CREATE TABLE names (n INT, name STRING) WITH ('connector' = 'memory');
CREATE TABLE clicks (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SET 'execution.runtime-mode' = 'streaming';
SELECT * FROM clicks AS c JOIN names /*+ OPTIONS('lookup.cache' = 'full', 'lookup.full-cache.reload-strategy' = 'timed',
  'lookup.full-cache.timed-reload.iso-time' = '25:00') */ AS n ON c.n = n.n;
