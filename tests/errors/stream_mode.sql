SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (
  item INT, price INT, at TIMESTAMP(3), tags AS ARRAY(item),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT window_end, CORR(price, price) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end
