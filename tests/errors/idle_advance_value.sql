CREATE TABLE clicks (id INT, at TIMESTAMP(3), WATERMARK FOR at AS at)
  WITH ('connector' = 'datagen', 'sqlwin.watermark.idle-advance' = 'soon');
SELECT * FROM clicks
