CREATE TABLE readings (room STRING, degrees DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SET 'execution.runtime-mode' = 'streaming';
SELECT * FROM TABLE(GAP_FILL(TABLE readings PARTITION BY room, DESCRIPTOR(ts), INTERVAL '5' MINUTES,
  FILL => (degrees = LOCF), FROM => TIMESTAMP '2026-01-01 00:00:00', TO => TIMESTAMP '2026-01-02 00:00:00'));
