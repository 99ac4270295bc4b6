-- Windows over windows: totals of ten minutes are aggregated to totals of an hour. The second
-- window function reads the results of the first, with window_time as its time.
SET 'execution.runtime-mode' = 'streaming';

CREATE TABLE meter (
  id BIGINT,
  watts INT,
  at AS TIMESTAMP '2026-03-01 00:00:00' + INTERVAL '1' SECOND * (id * 5),
  WATERMARK FOR at AS at - INTERVAL '30' SECONDS
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '4000',
  'rows-per-batch' = '900',
  'seed' = '9',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '0',
  'fields.id.end' = '3999',
  'fields.watts.min' = '100',
  'fields.watts.max' = '3000'
);

CREATE VIEW ten_minutes AS
SELECT window_time AS ended_at, MAX(watts) AS peak, SUM(watts) AS total, COUNT(*) AS readings
FROM TABLE(TUMBLE(TABLE meter, DESCRIPTOR(at), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, window_time;

SELECT window_start, window_end, MAX(peak) AS peak, SUM(total) AS total, SUM(readings) AS readings
FROM TABLE(TUMBLE(TABLE ten_minutes, DESCRIPTOR(ended_at), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
