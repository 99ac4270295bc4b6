CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = 'queries/data/flihgts.parquet', 'format' = 'parquet');
SELECT * FROM t;
