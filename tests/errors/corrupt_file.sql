CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = 'queries/quickstart.sql', 'format' = 'parquet');
SELECT * FROM t;
