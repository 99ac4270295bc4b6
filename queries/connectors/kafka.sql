-- Write and read a Kafka topic: each row is a message, with the sensor as its key. METADATA columns
-- contain a message's partition and time. A table that ends at the latest offset is read as a batch;
-- without 'scan.bounded.mode' it is a stream. Requires a broker at localhost:9092.
CREATE TABLE readings (
  sensor STRING,
  degrees INT,
  at TIMESTAMP(3),
  part INT METADATA FROM 'partition',
  sent_at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'
) WITH (
  'connector' = 'kafka',
  'topic' = 'readings',
  'value.format' = 'json',
  'key.format' = 'raw',
  'key.fields' = 'sensor',
  'scan.bounded.mode' = 'latest-offset',
  'properties.bootstrap.servers' = 'localhost:9092'
);

INSERT INTO readings VALUES
  ('cellar', 11, TIMESTAMP '2026-03-01 10:00:10'),
  ('attic', 24, TIMESTAMP '2026-03-01 10:00:40'),
  ('cellar', 12, TIMESTAMP '2026-03-01 10:04:59.999'),
  ('attic', 27, TIMESTAMP '2026-03-01 10:05:00'),
  ('cellar', 12, TIMESTAMP '2026-03-01 10:07:30');

SELECT sensor, window_end, COUNT(*) AS readings, MAX(degrees) AS warmest,
       COUNT(DISTINCT part) AS partitions, BOOL_AND(sent_at IS NOT NULL) AS have_times
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(at), INTERVAL '5' MINUTES))
GROUP BY sensor, window_start, window_end
ORDER BY sensor, window_end;
