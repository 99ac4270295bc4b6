CREATE TABLE t (a INT) WITH ('path' = 'x');
