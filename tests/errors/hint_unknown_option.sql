CREATE TABLE clicks (id INT, at TIMESTAMP(3)) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE clicks /*+ OPTIONS('number-of-row' = '3') */, DESCRIPTOR(at), INTERVAL '10' MINUTE))
GROUP BY window_start, window_end
