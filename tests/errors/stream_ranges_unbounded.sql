CREATE TABLE t (v INT, k STRING, ts TIMESTAMP(3), other TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
CREATE VIEW bounds AS SELECT * FROM VALUES ('a', 'x', TIMESTAMP_NTZ '2026-01-01 00:00:00', TIMESTAMP_NTZ '2026-01-02 00:00:00') AS b(name, label, starts, ends);
SET 'execution.runtime-mode' = 'streaming';
SELECT * FROM TABLE(RANGES(TABLE t, DESCRIPTOR(ts), (SELECT v AS w, other, ts AS until FROM t), DESCRIPTOR(other, until)))
