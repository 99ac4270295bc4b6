-- Windows by the calendar: INTERVAL in months, quarters or years makes windows that begin on the
-- first of a month, WEEK those that begin on Monday. CUMULATE goes through a month by days, weeks or
-- hours and begins anew on the first: month to date.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

-- Quarters.
SELECT window_start, window_end, COUNT(*) AS departures, ROUND(AVG(dep_delay), 1) AS mean_delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' QUARTER))
GROUP BY window_start, window_end
ORDER BY window_start;

-- Three months, every month: the worst ones. 2013 is all there is, so the first and the last are short.
SELECT window_start, window_end, COUNT(*) AS departures, ROUND(AVG(dep_delay), 1) AS mean_delay
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' MONTH, INTERVAL '3' MONTHS))
GROUP BY window_start, window_end
ORDER BY mean_delay DESC
LIMIT 4;

-- February and March to date, every ten days: the last step ends with the month.
SELECT window_start, window_end, COUNT(*) AS departures
FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '10' DAYS, INTERVAL '1' MONTH))
GROUP BY window_start, window_end
HAVING window_start IN (TIMESTAMP_NTZ'2013-02-01', TIMESTAMP_NTZ'2013-03-01')
ORDER BY window_end;

-- Weeks begin on Monday; months may begin on another day than the first.
SELECT window_start, window_end, COUNT(*) AS departures
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' WEEK))
GROUP BY window_start, window_end
ORDER BY departures
LIMIT 3;

SELECT window_start, window_end, COUNT(*) AS departures
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' MONTH, INTERVAL '14' DAYS))
GROUP BY window_start, window_end
ORDER BY departures DESC
LIMIT 3;
