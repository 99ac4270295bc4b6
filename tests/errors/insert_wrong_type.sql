CREATE TABLE out2 (a INT) WITH ('connector' = 'blackhole');
INSERT INTO out2 SELECT DATE'2013-01-01';
