CREATE TABLE rates (n INT, name STRING) WITH ('connector' = 'memory', 'lookup.cache' = 'FULL');
SELECT * FROM rates;
