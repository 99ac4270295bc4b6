CREATE TABLE names (n INT, name STRING) WITH ('connector' = 'delta', 'path' = 'missing', 'lookup.cache' = 'FULL',
  'lookup.full-cache.periodic-reload.interval' = '10 min');
