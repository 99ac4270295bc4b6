CREATE TABLE clicks (ts TIMESTAMP_LTZ(3), seen TIMESTAMP_LTZ(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
SELECT window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE (SELECT * FROM clicks AS c(at, ts)), DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
