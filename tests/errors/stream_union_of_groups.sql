CREATE TABLE clicks (page STRING, n INT) WITH ('connector' = 'datagen');
SELECT page, COUNT(*) AS n FROM clicks GROUP BY page
UNION ALL
SELECT page, SUM(n) FROM clicks GROUP BY page;
