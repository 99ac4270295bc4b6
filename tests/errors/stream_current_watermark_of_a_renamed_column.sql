SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (
  item INT, at TIMESTAMP(3), paid TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT CURRENT_WATERMARK(at) AS mark
FROM (SELECT item, paid AS at FROM bids);
