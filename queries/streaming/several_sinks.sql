-- Several results from one source: a statement set with two INSERTs. UNION ALL combines the rows of
-- two sensors; the watermark is the lower one of both.
SET 'execution.runtime-mode' = 'streaming';

CREATE TABLE indoor (
  id BIGINT,
  degrees INT,
  at AS TIMESTAMP '2026-03-01 00:00:00' + INTERVAL '1' SECOND * (id * 60),
  WATERMARK FOR at AS at - INTERVAL '2' MINUTES
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '240',
  'rows-per-batch' = '100',
  'seed' = '4',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '0',
  'fields.id.end' = '239',
  'fields.degrees.min' = '18',
  'fields.degrees.max' = '24'
);

CREATE TABLE outdoor WITH ('seed' = '8', 'rows-per-batch' = '60', 'fields.degrees.min' = '2') LIKE indoor;

CREATE VIEW degrees AS
SELECT 'in' AS place, degrees, at FROM indoor
UNION ALL
SELECT 'out' AS place, degrees, at FROM outdoor;

CREATE TABLE hourly (place STRING, window_end TIMESTAMP(3), warmest INT) WITH ('connector' = 'memory');
CREATE TABLE four_hourly (place STRING, window_end TIMESTAMP(3), mean DOUBLE) WITH ('connector' = 'memory');

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO hourly
  SELECT place, window_end, MAX(degrees)
  FROM TABLE(TUMBLE(TABLE degrees, DESCRIPTOR(at), INTERVAL '1' HOUR))
  GROUP BY place, window_start, window_end;

  INSERT INTO four_hourly
  SELECT place, window_end, ROUND(AVG(degrees), 2)
  FROM TABLE(TUMBLE(TABLE degrees, DESCRIPTOR(at), INTERVAL '4' HOURS))
  GROUP BY place, window_start, window_end;
END;

SET 'execution.runtime-mode' = 'batch';
SELECT * FROM hourly ORDER BY place, window_end;
SELECT * FROM four_hourly ORDER BY place, window_end;
