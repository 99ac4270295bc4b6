CREATE TABLE clicks (id INT, at TIMESTAMP(3)) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
SELECT * FROM clicks /*+ OPTIONS('number-of-rows' = 'few') */
