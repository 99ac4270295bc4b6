SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (item INT, at TIMESTAMP(3)) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT item, CURRENT_WATERMARK(at) AS mark FROM bids;
