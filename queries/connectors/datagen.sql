-- datagen generates rows: the same ones for the same seed, on any number of cores. A computed
-- column derives the event time from a sequence. The watermark is used only on a stream.
CREATE TABLE orders (
  id BIGINT,
  item INT,
  price DOUBLE,
  ordered_at AS TIMESTAMP '2026-01-01 00:00:00' + INTERVAL '1' SECOND * id,
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '10000',
  'seed' = '7',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '0',
  'fields.id.end' = '9999',
  'fields.item.min' = '1',
  'fields.item.max' = '5',
  'fields.price.min' = '1',
  'fields.price.max' = '100'
);

SELECT item, window_start, window_end, COUNT(*) AS orders, CAST(SUM(price) AS DECIMAL(12, 2)) AS revenue
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '30' MINUTES, INTERVAL '1' HOUR))
GROUP BY item, window_start, window_end
ORDER BY item, window_end
LIMIT 12;
