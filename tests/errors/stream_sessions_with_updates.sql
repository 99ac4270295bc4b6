SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (
  item INT, price INT, at TIMESTAMP(3), tags AS ARRAY(item),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SET 'table.exec.emit.allow-lateness' = '1 min';
SELECT item, price, window_end FROM TABLE(SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(at), INTERVAL '1' MINUTE))
