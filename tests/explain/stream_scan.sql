SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE departures (
  sched_dep TIMESTAMP(3), origin STRING, dep_delay INT,
  WATERMARK FOR sched_dep AS sched_dep - INTERVAL '10' MINUTES
) WITH ('connector' = 'filesystem', 'path' = 'queries/data/flights.parquet', 'format' = 'parquet');

SELECT origin, window_end, AVG(dep_delay) AS mean_delay
FROM TABLE(HOP(TABLE departures, DESCRIPTOR(sched_dep), INTERVAL '5' MINUTES, INTERVAL '1' HOUR))
WHERE dep_delay IS NOT NULL
GROUP BY origin, window_start, window_end;

-- the scan does not take a key apart
SELECT INITCAP(origin) AS origin, window_end, COUNT(*) AS flown
FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY INITCAP(origin), window_start, window_end;

SELECT origin, COUNT(*) AS flown FROM departures WHERE dep_delay > 0 GROUP BY origin;
