CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
SET 'table.exec.emit.early-fire.enabled' = 'true';
SET 'table.exec.emit.early-fire.delay' = '10 s';
CREATE TABLE totals (page STRING, window_end TIMESTAMP(3), n BIGINT) WITH ('connector' = 'postgres', 'url' = 'postgresql://localhost/shop', 'table-name' = 'totals');
EXPLAIN INSERT INTO totals
SELECT page, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end;
