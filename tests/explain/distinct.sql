-- strategies: AUTO
SELECT origin, window_start, window_end, COUNT(DISTINCT dest) AS destinations,
       COUNT(DISTINCT distance) AS distances, SUM(DISTINCT distance) AS miles,
       AVG(DISTINCT distance) AS mean_miles, COUNT(DISTINCT carrier, flight) AS flights,
       COUNT(DISTINCT dest) FILTER (WHERE distance > 1000) AS far_destinations
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '5' MINUTES, INTERVAL '1' HOUR))
GROUP BY origin, window_start, window_end
