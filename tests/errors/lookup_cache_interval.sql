CREATE TABLE rates (n INT, name STRING) WITH ('connector' = 'datagen', 'lookup.cache' = 'FULL',
  'lookup.full-cache.periodic-reload.interval' = 'often');
SELECT * FROM rates;
