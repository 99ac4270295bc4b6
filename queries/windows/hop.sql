-- HOP(slide, size): overlapping windows. Here: the busiest hours of the year, which may begin at
-- any minute. Every flight is in sixty windows; Spark's window() would copy it sixty times.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

SELECT window_start, window_end, COUNT(*) AS departures, COUNT(DISTINCT dest) AS destinations
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' MINUTE, INTERVAL '1' HOUR))
WHERE sched_dep >= TIMESTAMP '2013-11-27' AND sched_dep < TIMESTAMP '2013-11-28'
GROUP BY window_start, window_end
ORDER BY departures DESC, window_start
LIMIT 5;
