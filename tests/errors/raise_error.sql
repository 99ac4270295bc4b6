SELECT window_end, MAX(IF(distance > 10, raise_error(CONCAT('too far: ', 'x')), 1)) AS n,
  MIN(IF(distance < 0, raise_error('negative'), 1)) AS m
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
GROUP BY window_end
