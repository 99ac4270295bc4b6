CREATE TABLE clicks (page STRING, n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'datagen', 'late-rows' = 'too_late');
CREATE TABLE too_late (page STRING, n INT, ts TIMESTAMP_LTZ(3), missed_watermark TIMESTAMP_LTZ(3)) WITH ('connector' = 'memory');
CREATE TABLE nowhere WITH ('connector' = 'blackhole');
INSERT INTO nowhere
SELECT window_end, SUM(price)
FROM TABLE(TUMBLE(
  (SELECT c.ts, p.price FROM clicks c JOIN (VALUES ('home', 1)) AS p (page, price) ON c.page = p.page),
  DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
