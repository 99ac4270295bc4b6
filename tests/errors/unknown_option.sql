CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-row' = '10');
