CREATE TABLE clicks (page STRING, ts TIMESTAMP_LTZ(3)) WITH ('connector' = 'datagen');
CREATE VIEW home AS SELECT ts AS at FROM clicks WHERE page = 'home';
SELECT window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE home, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
