SET 'execution.runtime-mode' = 'streaming';
SET 'sqlwin.strict-flink' = 'true';
CREATE TABLE bids (item INT, price INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT window_end, SUM(price) FROM TABLE(HOP(TABLE bids, DESCRIPTOR(at), INTERVAL '3' MINUTE, INTERVAL '10' MINUTE))
GROUP BY window_start, window_end
