-- Sales of the day so far: CUMULATE emits a running total every six hours and starts over at
-- midnight. The bounded input is streamed; its end closes the last windows.
SET 'execution.runtime-mode' = 'streaming';

CREATE TABLE sales (
  id BIGINT,
  shop INT,
  price INT,
  sold_at AS TIMESTAMP '2026-03-01 05:00:00' + INTERVAL '1' SECOND * (id * 30),
  WATERMARK FOR sold_at AS sold_at - INTERVAL '1' MINUTE
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '5000',
  'rows-per-batch' = '1500',
  'seed' = '11',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '0',
  'fields.id.end' = '4999',
  'fields.shop.min' = '1',
  'fields.shop.max' = '2',
  'fields.price.min' = '1',
  'fields.price.max' = '100'
);

SELECT shop, window_start AS day_start, window_end AS until, SUM(price) AS sold, COUNT(*) AS sales
FROM TABLE(CUMULATE(TABLE sales, DESCRIPTOR(sold_at), INTERVAL '6' HOURS, INTERVAL '1' DAY))
GROUP BY shop, window_start, window_end;
