SELECT origin, GROUPING_ID(origin, COUNT(*)) AS g FROM flights GROUP BY ROLLUP (origin)
