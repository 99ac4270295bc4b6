CREATE TABLE clicks (page STRING, n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'datagen', 'late-rows' = 'too_late');
CREATE TABLE too_late (page STRING, n INT, ts TIMESTAMP_LTZ(3), missed_watermark TIMESTAMP_LTZ(3)) WITH ('connector' = 'memory');
CREATE TABLE views (page STRING, n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'datagen', 'late-rows' = 'too_late');
CREATE TABLE nowhere WITH ('connector' = 'blackhole');
INSERT INTO nowhere
SELECT window_end, COUNT(*)
FROM TABLE(TUMBLE((SELECT ts FROM clicks UNION ALL SELECT ts FROM views), DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
