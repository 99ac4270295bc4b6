CREATE TABLE clicks (id INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'datagen',
  'sqlwin.watermark.idle-advance' = '1 s', 'SQLWIN.watermark.idle-advance' = '2 s');
SELECT * FROM clicks
