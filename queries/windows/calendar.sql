-- Calendar windows: intervals in months, quarters or years begin on the first of a month, weeks on
-- Monday. CUMULATE over a month gives month-to-date totals.
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

-- The worst three months, beginning with any month. The data is of 2013, so the first and last windows are incomplete.
SELECT window_start, window_end, COUNT(*) AS departures, ROUND(AVG(dep_delay), 1) AS mean_delay
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' MONTH, INTERVAL '3' MONTHS))
GROUP BY window_start, window_end
ORDER BY mean_delay DESC
LIMIT 4;

-- February and March to date, every ten days: the last step ends with the month.
SELECT window_start, window_end, COUNT(*) AS departures
FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '10' DAYS, INTERVAL '1' MONTH))
GROUP BY window_start, window_end
HAVING window_start IN (TIMESTAMP '2013-02-01', TIMESTAMP '2013-03-01')
ORDER BY window_end;

-- Weeks begin on Monday; with an offset, months begin on another day than the first.
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
