SELECT FLOOR(sched_dep TO WEEK) AS w, COUNT(*) AS n FROM flights GROUP BY FLOOR(sched_dep TO WEEK)
