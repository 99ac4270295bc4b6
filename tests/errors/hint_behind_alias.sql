CREATE TABLE clicks (id INT, at TIMESTAMP(3)) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT * FROM clicks AS c /*+ OPTIONS('number-of-rows' = '3') */
