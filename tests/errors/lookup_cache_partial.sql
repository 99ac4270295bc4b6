CREATE TABLE names (n INT, name STRING) WITH ('connector' = 'datagen', 'lookup.cache' = 'NONE');
CREATE TABLE rates (n INT, name STRING) WITH ('connector' = 'memory', 'lookup.cache' = 'PARTIAL');
SELECT * FROM names;
