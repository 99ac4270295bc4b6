CREATE TABLE rates (n INT, name STRING) WITH ('connector' = 'memory', 'lookup.cache' = 'FULL',
  'lookup.full-cache.periodic-reload.schedule-mode' = 'FIXED_RATE', 'lookup.full-cache.periodic-reload.interval' = '1 h');
SELECT * FROM rates;
