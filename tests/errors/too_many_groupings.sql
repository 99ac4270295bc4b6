SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_start, window_end,
  CUBE (month, day, dep_delay, arr_delay, carrier, flight, origin, dest, distance, month + 1, month + 2, month + 3, month + 4, month + 5, month + 6, month + 7)
