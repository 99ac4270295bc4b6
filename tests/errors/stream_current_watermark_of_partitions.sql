CREATE TABLE bids (
  item INT, at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'bids', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
SELECT item, CURRENT_WATERMARK(at) AS mark FROM bids;
