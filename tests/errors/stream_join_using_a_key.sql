SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (item INT, price INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT item, a.price, b.price
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' MINUTE)) AS a
JOIN TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' MINUTE)) AS b
USING (item)
