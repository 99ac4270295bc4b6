CREATE TABLE too_late WITH ('connector' = 'filesystem', 'path' = 'no/such/late', 'format' = 'json');
