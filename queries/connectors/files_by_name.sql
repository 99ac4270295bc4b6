-- A quoted path is a table: sqlwin detects delimiter, header, types, decimal comma, NULLs and time
-- formats from a sample. SHOW CREATE TABLE 'queries/data/sales.csv' shows the result.
SELECT window_start, Laden, COUNT(*) AS n, ROUND(SUM(Menge * Preis), 2) AS umsatz
FROM TUMBLE('queries/data/sales.csv', Zeit, 1h)
GROUP BY window_start, window_end, Laden
ORDER BY window_start, Laden;

SELECT page, window_start, COUNT(*) AS clicks, COUNT(DISTINCT user.id) AS users, MAX(ms) AS slowest
FROM TABLE(TUMBLE(TABLE 'queries/data/clicks.ndjson', DESCRIPTOR(ts), INTERVAL '15' MINUTES))
GROUP BY page, window_start, window_end
ORDER BY window_start, page;
