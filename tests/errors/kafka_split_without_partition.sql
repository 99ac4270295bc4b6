SET 'sqlwin.watermark.per-split' = 'true';
CREATE TABLE clicks (page STRING, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH (
  'connector' = 'kafka', 'topic' = 'clicks', 'format' = 'json',
  'properties.bootstrap.servers' = 'localhost:9092');
SELECT page, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY page, window_start, window_end;
