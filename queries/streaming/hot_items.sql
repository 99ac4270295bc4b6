-- Items in demand: those with at least 88 bids in the last five minutes, every minute. Each bid is
-- aggregated once, into its minute; five minutes are merged per window.
SET 'execution.runtime-mode' = 'streaming';

CREATE TABLE bids (
  id BIGINT,
  item INT,
  price INT,
  bid_at AS TIMESTAMP '2026-03-01 12:00:00' + INTERVAL '0.1' SECOND * id,
  WATERMARK FOR bid_at AS bid_at - INTERVAL '5' SECOND
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '6000',
  'rows-per-batch' = '2000',
  'seed' = '5',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '0',
  'fields.id.end' = '5999',
  'fields.item.min' = '1',
  'fields.item.max' = '40',
  'fields.price.min' = '1',
  'fields.price.max' = '500'
);

SELECT window_start, window_end, item, COUNT(*) AS bids, MAX(price) AS highest
FROM TABLE(HOP(TABLE bids, DESCRIPTOR(bid_at), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES))
GROUP BY item, window_start, window_end
HAVING COUNT(*) >= 88;
