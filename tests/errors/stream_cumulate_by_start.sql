SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (
  item INT, price INT, at TIMESTAMP(3), tags AS ARRAY(item),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT window_start, COUNT(*)
FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '1' HOUR))
GROUP BY window_start
