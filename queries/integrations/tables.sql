-- Tables that Airflow, Dagster, Harlequin and PostgreSQL clients read through sqlwin: the flights from New York in 2013,
-- and their number per day and airport.
CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = 'queries/data/flights.parquet');

CREATE VIEW daily AS
SELECT origin, window_start, window_end, COUNT(*) AS n, AVG(dep_delay) AS delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAYS))
GROUP BY origin, window_start, window_end;
