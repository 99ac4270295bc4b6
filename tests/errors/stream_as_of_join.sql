CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE prices (page STRING, ts TIMESTAMP(3), price INT) WITH ('connector' = 'datagen', 'number-of-rows' = '5');
SELECT c.page, p.price
FROM clicks AS c ASOF JOIN prices AS p MATCH_CONDITION (c.ts >= p.ts) ON c.page = p.page;
