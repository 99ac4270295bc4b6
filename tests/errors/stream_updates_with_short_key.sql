CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
SET 'table.exec.emit.allow-lateness' = '1 min';
CREATE TABLE totals (page STRING, until TIMESTAMP(3), n BIGINT, PRIMARY KEY (page) NOT ENFORCED) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/shop', 'table-name' = 'totals');
INSERT INTO totals
SELECT page, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end HAVING COUNT(*) > 1;
