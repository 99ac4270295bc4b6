CREATE TABLE rates (n INT, name STRING) WITH ('connector' = 'memory', 'lookup.cache' = 'FULL',
  'lookup.full-cache.reload-strategy' = 'TIMED', 'lookup.full-cache.periodic-reload.interval' = '1 h');
SELECT * FROM rates;
