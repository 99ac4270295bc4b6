SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (
  item INT, price INT, at TIMESTAMP(3), tags AS ARRAY(item),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT b.item, o.n FROM bids AS b, LATERAL (SELECT COUNT(*) AS n FROM bids AS c WHERE c.item = b.item) AS o
