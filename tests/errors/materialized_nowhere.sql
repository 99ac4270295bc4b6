CREATE MATERIALIZED TABLE m WITH ('path' = '/nowhere/m');
