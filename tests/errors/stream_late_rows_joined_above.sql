CREATE TABLE clicks (page STRING, n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'datagen', 'late-rows' = 'too_late');
CREATE TABLE too_late (page STRING, n INT, ts TIMESTAMP_LTZ(3), missed_watermark TIMESTAMP_LTZ(3)) WITH ('connector' = 'memory');
CREATE TABLE nowhere WITH ('connector' = 'blackhole');
INSERT INTO nowhere
SELECT w.page, w.n, p.price
FROM (SELECT page, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
      GROUP BY page, window_start, window_end) AS w
JOIN (VALUES ('home', 1)) AS p (page, price) ON w.page = p.page;
