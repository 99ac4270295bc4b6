CREATE TABLE clicks (n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE auctions (event_type INT) WITH ('connector' = 'nexmark', 'events.num' = '100');
INSERT INTO auctions SELECT n FROM clicks;
