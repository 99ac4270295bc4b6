CREATE TABLE readings (sensor STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'readings', 'format' = 'json', 'late-rows' = 'too_late');
CREATE TABLE too_late WITH ('connector' = 'filesystem', 'path' = 'no/such/late', 'format' = 'json');
