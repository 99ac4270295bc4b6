SELECT origin COUNT(*) FROM flights GROUP origin
