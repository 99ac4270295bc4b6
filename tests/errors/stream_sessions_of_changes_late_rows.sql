SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE late (v INT, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');
CREATE TABLE t (v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'number-of-rows' = '10', 'late-rows' = 'late');
CREATE VIEW latest AS SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY v ORDER BY ts DESC) = 1;
SELECT COUNT(*) AS n FROM TABLE(SESSION(TABLE latest, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end
