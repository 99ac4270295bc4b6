CREATE TABLE out (a INT, b INT) WITH ('connector' = 'blackhole');
INSERT INTO out SELECT 1;
