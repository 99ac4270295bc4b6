SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE late (v INT, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');
CREATE TABLE t (v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'number-of-rows' = '10', 'late-rows' = 'late');
CREATE VIEW bounds AS SELECT * FROM VALUES ('a', TIMESTAMP_NTZ '2026-01-01 00:00:00', TIMESTAMP_NTZ '2026-01-02 00:00:00') AS b(name, starts, ends);
SELECT name, COUNT(*) AS n FROM TABLE(RANGES(TABLE t, DESCRIPTOR(ts), TABLE bounds, DESCRIPTOR(starts, ends)))
GROUP BY name, window_start, window_end
