SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE clicks (n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '5');
SELECT window(ts, '1 minute').start, COUNT(*)
FROM clicks
GROUP BY window(ts, '1 minute');
