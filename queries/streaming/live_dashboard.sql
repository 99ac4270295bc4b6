-- A live dashboard: a thousand requests per second, and every two seconds the totals of the last
-- ten. The query is a stream because its source is unbounded.
-- Runs until Ctrl-C.
CREATE TABLE requests (
  page INT,
  took_ms INT,
  at TIMESTAMP_LTZ(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '1000',
  'seed' = '1',
  'fields.page.min' = '1',
  'fields.page.max' = '3',
  'fields.took_ms.min' = '1',
  'fields.took_ms.max' = '900'
);

SELECT window_end, page, COUNT(*) AS requests, ROUND(AVG(took_ms), 1) AS mean_ms, MAX(took_ms) AS worst_ms
FROM TABLE(HOP(TABLE requests, DESCRIPTOR(at), INTERVAL '2' SECONDS, INTERVAL '10' SECONDS))
GROUP BY page, window_start, window_end;
