SELECT origin, COUNT(*) FROM flights GROUP BY origin, TumblingWindow(hour, 1)
