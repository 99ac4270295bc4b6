-- Totals of the last ten seconds in PostgreSQL, corrected in place every second while their windows
-- are open. Start a server and create the database first:
--   createdb live
--   sqlwin run queries/streaming/live_postgres.sql
--   echo 'SELECT * FROM totals ORDER BY window_end DESC, page LIMIT 6 \watch 1' | psql live
-- Runs until Ctrl-C. Started again with the same checkpoint, it continues: each micro-batch is
-- written once.
SET 'execution.checkpointing.dir' = '/tmp/live-totals';
SET 'table.exec.emit.early-fire.enabled' = 'true';
SET 'table.exec.emit.early-fire.delay' = '1 s';

CREATE TABLE requests (
  page INT,
  took_ms INT,
  at TIMESTAMP_LTZ(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '1000',
  'seed' = '1',
  'fields.page.min' = '1',
  'fields.page.max' = '3',
  'fields.took_ms.min' = '1',
  'fields.took_ms.max' = '900'
);

CREATE TABLE totals (
  page INT,
  window_start TIMESTAMP(3),
  window_end TIMESTAMP(3),
  requests BIGINT,
  worst_ms INT,
  PRIMARY KEY (page, window_end) NOT ENFORCED
) WITH (
  'connector' = 'postgres',
  'url' = 'postgresql://localhost:5432/live',
  'table-name' = 'totals',
  'create-table' = 'true'
);

INSERT INTO totals
SELECT page, window_start, window_end, COUNT(*), MAX(took_ms)
FROM TABLE(HOP(TABLE requests, DESCRIPTOR(at), INTERVAL '2' SECONDS, INTERVAL '10' SECONDS))
GROUP BY page, window_start, window_end;
