-- an empty predicate of a template must not read the whole table
SELECT k, window_start, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
WHERE
GROUP BY k, window_start
