-- Late rows: the watermark allows for one minute, but some readings arrive six minutes late and
-- some half an hour. Windows of 15 minutes begin every five minutes, and a late reading still
-- counts in those that are open. If none is, the reading is counted as late and written to the
-- table named by 'late-rows', with the watermark that it missed.
SET 'execution.runtime-mode' = 'streaming';

CREATE TABLE readings (
  id BIGINT,
  sensor INT,
  degrees INT,
  at AS TIMESTAMP '2026-03-01 00:00:00' + INTERVAL '1' SECOND * (id * 10)
        - CASE id % 100
            WHEN 99 THEN INTERVAL '6' MINUTES
            WHEN 49 THEN INTERVAL '30' MINUTES
            ELSE INTERVAL '0' MINUTES
          END,
  WATERMARK FOR at AS at - INTERVAL '1' MINUTE
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '900',
  'rows-per-batch' = '90',
  'seed' = '3',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '0',
  'fields.id.end' = '899',
  'fields.sensor.min' = '1',
  'fields.sensor.max' = '2',
  'fields.degrees.min' = '15',
  'fields.degrees.max' = '25',
  'late-rows' = 'too_late'
);

CREATE TABLE too_late (
  id BIGINT,
  at TIMESTAMP(3),
  missed_watermark TIMESTAMP(3)
) WITH ('connector' = 'memory');

SELECT window_start, window_end, COUNT(*) AS readings, MAX(degrees) AS warmest
FROM TABLE(HOP(TABLE readings, DESCRIPTOR(at), INTERVAL '5' MINUTES, INTERVAL '15' MINUTES))
GROUP BY window_start, window_end;

SELECT id, at, missed_watermark
FROM too_late
ORDER BY id;
