SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE changes (op STRING, item INT, price INT, note STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
CREATE VIEW orders AS SELECT * FROM FROM_CHANGELOG(input => TABLE changes, op_mapping => MAP[
  'c', 'INSERT', 'd', 'DELETE'], error_handling => 'SKIP');
SELECT t.item, t.window_end, t.total, h.highest
FROM (SELECT item, window_start, window_end, SUM(price) AS total
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR))
  GROUP BY item, window_start, window_end) AS t
JOIN (SELECT item, window_start, window_end, MAX(price) AS highest
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR))
  GROUP BY item, window_start, window_end) AS h
ON t.item = h.item AND t.window_start = h.window_start AND t.window_end = h.window_end
