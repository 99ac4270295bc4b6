"""Settings: names, types, defaults, values."""
