-- RANGES takes its windows from the rows of a table: departures from New York around three holidays
-- of 2013. Ranges may overlap, as the long weekend and the day of Independence Day do.
CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet',
  'format' = 'parquet'
);

CREATE VIEW holidays AS SELECT * FROM VALUES
  ('Independence Day', DATE '2013-07-04', DATE '2013-07-05'),
  ('Independence Day weekend', DATE '2013-07-04', DATE '2013-07-08'),
  ('Thanksgiving', DATE '2013-11-27', DATE '2013-12-02'),
  ('Christmas', DATE '2013-12-24', DATE '2013-12-27')
  AS h(holiday, first_day, end_day);

SELECT holiday, window_start, window_end, COUNT(*) AS flights, AVG(dep_delay) AS delay
FROM TABLE(RANGES(TABLE flights, DESCRIPTOR(sched_dep),
                  TABLE holidays, DESCRIPTOR(first_day, end_day)))
GROUP BY holiday, window_start, window_end
ORDER BY window_start, holiday;

-- The airport with the longest delays in each range.
SELECT holiday, origin, delay
FROM (
  SELECT *, ROW_NUMBER() OVER (
    PARTITION BY holiday, window_start, window_end ORDER BY delay DESC) AS place
  FROM (
    SELECT holiday, origin, window_start, window_end, AVG(dep_delay) AS delay
    FROM TABLE(RANGES(TABLE flights, DESCRIPTOR(sched_dep),
                      TABLE holidays, DESCRIPTOR(first_day, end_day)))
    GROUP BY holiday, origin, window_start, window_end))
WHERE place = 1
ORDER BY holiday;
