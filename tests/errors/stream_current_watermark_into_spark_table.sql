SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (
  item INT, at TIMESTAMP(3), paid TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
CREATE TABLE marks (item INT, mark TIMESTAMP(3)) WITH ('connector' = 'spark', 'format' = 'csv', 'path' = '/tmp/marks');
INSERT INTO marks SELECT item, CURRENT_WATERMARK(at) FROM bids;
