CREATE MATERIALIZED TABLE m WITH ('path' = '/nowhere/m') AS
SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin;
