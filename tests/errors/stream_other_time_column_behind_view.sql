CREATE TABLE clicks (page STRING, ts TIMESTAMP_LTZ(3), seen TIMESTAMP_LTZ(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE VIEW home AS SELECT seen AS at FROM clicks WHERE page = 'home';
SELECT window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE home, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
