"""Settings: names, types, defaults, values. Knows no session and no Spark."""
