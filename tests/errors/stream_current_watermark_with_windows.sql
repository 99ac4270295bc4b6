SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (
  item INT, at TIMESTAMP(3), paid TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT window_end, COUNT(*) AS late
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' MINUTE))
WHERE at <= CURRENT_WATERMARK(at)
GROUP BY window_start, window_end;
