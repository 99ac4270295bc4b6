CREATE TABLE kept (id INT) WITH ('connector' = 'filesystem', 'path' = '/tmp/kept', 'format' = 'csv');
INSERT INTO kept /*+ OPTIONS('csv.field-delimeter' = ';') */ SELECT 1
