SELECT origin, GROUPING(COUNT(*)) AS g FROM flights GROUP BY ROLLUP (origin)
