"""Tables as files next to a log: places, Parquet files that tasks write, entries of Delta's log."""
