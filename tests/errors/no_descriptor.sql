SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, INTERVAL '1' HOUR))
GROUP BY window_end
