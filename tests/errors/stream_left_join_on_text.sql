SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (
  item INT, price INT, at TIMESTAMP(3), tags AS ARRAY(item),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT a.item, b.price
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' MINUTE)) AS a
LEFT JOIN TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' MINUTE)) AS b
ON a.window_start = b.window_start AND a.window_end = b.window_end
AND LEVENSHTEIN(CAST(a.item AS STRING), CAST(b.item AS STRING)) < 2
