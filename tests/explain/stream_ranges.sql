SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE bids (item INT, price INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH ('connector' = 'datagen');
CREATE VIEW campaigns AS SELECT 'spring' AS name, TIMESTAMP '2026-03-20' AS starts, TIMESTAMP '2026-06-21' AS ends;
SELECT name, item, window_end, SUM(price) AS s
FROM TABLE(RANGES(TABLE bids, DESCRIPTOR(at), TABLE campaigns, DESCRIPTOR(starts, ends)))
GROUP BY name, item, window_start, window_end
