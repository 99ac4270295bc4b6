SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin ORDER BY n DESC
