-- Spark is given other words than these, and its place is found in them
SELECT 1 AS k
GROUP BY ROLLUP ()
