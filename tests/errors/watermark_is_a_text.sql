CREATE TABLE t (name STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS CONCAT(name, ':00'))
WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'csv')
