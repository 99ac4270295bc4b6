CREATE TABLE printed (n INT) WITH ('connector' = 'print');
INSERT OVERWRITE printed SELECT 1;
