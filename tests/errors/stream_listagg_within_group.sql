SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (item STRING, price INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT window_end, LISTAGG(item, ', ') AS all_items, LISTAGG(item) WITHIN GROUP (ORDER BY price) AS items
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '10' MINUTE))
GROUP BY window_start, window_end
