CREATE TABLE t (a INTEGRE) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
