CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'csv');
