-- SESSION ends a window when nothing came for a while: the departures from Newark on a Saturday, a
-- window ending once no flight to the destination was scheduled for three hours. PARTITION BY gives
-- each destination sessions of its own; they are as long as the flights make them.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

CREATE VIEW newark AS
SELECT dest, sched_dep, dep_delay FROM flights
WHERE origin = 'EWR' AND dest IN ('BOS', 'SFO', 'MIA')
  AND sched_dep >= TIMESTAMP_NTZ'2013-07-06' AND sched_dep < TIMESTAMP_NTZ'2013-07-07';

SELECT dest, window_start, window_end, COUNT(*) AS flights, MAX(dep_delay) AS worst_delay
FROM TABLE(SESSION(TABLE newark PARTITION BY dest, DESCRIPTOR(sched_dep), INTERVAL '3' HOURS))
GROUP BY dest, window_start, window_end
ORDER BY dest, window_start;

-- The same rows in sessions of the airport as a whole, counted by destination inside them.
SELECT window_start, window_end, dest, COUNT(*) AS flights
FROM TABLE(SESSION(TABLE newark, DESCRIPTOR(sched_dep), INTERVAL '75' MINUTES))
GROUP BY dest, window_start, window_end
ORDER BY window_start, dest;
