SELECT * FROM TABLE(TUMBLE(
  (SELECT *, sched_dep AS window_start FROM flights), DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
