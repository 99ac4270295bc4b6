-- SESSION ends a window after a gap without rows: departures from Newark on a Saturday, in sessions
-- that end when no flight to the destination is scheduled for three hours. PARTITION BY gives each
-- destination its own sessions.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

CREATE VIEW newark AS
SELECT dest, sched_dep, dep_delay FROM flights
WHERE origin = 'EWR' AND dest IN ('BOS', 'SFO', 'MIA')
  AND sched_dep >= TIMESTAMP '2013-07-06' AND sched_dep < TIMESTAMP '2013-07-07';

SELECT dest, window_start, window_end, COUNT(*) AS flights, MAX(dep_delay) AS worst_delay
FROM TABLE(SESSION(TABLE newark PARTITION BY dest, DESCRIPTOR(sched_dep), INTERVAL '3' HOURS))
GROUP BY dest, window_start, window_end
ORDER BY dest, window_start;

-- Sessions of all flights from the airport, counted by destination.
SELECT window_start, window_end, dest, COUNT(*) AS flights
FROM TABLE(SESSION(TABLE newark, DESCRIPTOR(sched_dep), INTERVAL '75' MINUTES))
GROUP BY dest, window_start, window_end
ORDER BY window_start, dest;
