CREATE TABLE twice (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
CREATE TABLE twice (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
