CREATE TABLE t (a INT) WITH ('connector' = 'filesytem', 'path' = 'x', 'format' = 'csv');
