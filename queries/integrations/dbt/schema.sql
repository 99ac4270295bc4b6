-- The columns of models that queries in windows/ read
CREATE TABLE flights (origin STRING, dest STRING, sched_dep TIMESTAMP(6), dep_delay DOUBLE);
