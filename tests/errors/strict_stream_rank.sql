SET 'execution.runtime-mode' = 'streaming';
SET 'sqlwin.strict-flink' = 'true';
CREATE TABLE bids (item INT, price INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT * FROM (SELECT *, RANK() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS place
  FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '10' MINUTE))) WHERE place <= 3
