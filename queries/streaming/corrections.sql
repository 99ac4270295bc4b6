-- Allowed lateness: a window is emitted when the watermark passes its end, and again when rows
-- arrive up to ten minutes late. The previous result is retracted (-U) and replaced (+U).
SET 'execution.runtime-mode' = 'streaming';
SET 'table.exec.emit.allow-lateness' = '10 min';

CREATE TABLE readings (
  id BIGINT,
  degrees INT,
  at AS TIMESTAMP '2026-03-01 00:00:00' + INTERVAL '1' SECOND * (id * 10)
        - CASE WHEN id % 50 = 10 THEN INTERVAL '6' MINUTES ELSE INTERVAL '0' MINUTES END,
  WATERMARK FOR at AS at
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '200',
  'rows-per-batch' = '50',
  'seed' = '3',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '0',
  'fields.id.end' = '199',
  'fields.degrees.min' = '15',
  'fields.degrees.max' = '25'
);

SELECT window_start, window_end, COUNT(*) AS readings, MAX(degrees) AS warmest
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(at), INTERVAL '5' MINUTES))
GROUP BY window_start, window_end;
