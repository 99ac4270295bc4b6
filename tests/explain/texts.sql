SELECT origin, window_end, LISTAGG(carrier) AS carriers, LISTAGG(carrier, '; ') AS again, STRING_AGG(dest, ' ') AS places
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY origin, window_start, window_end
