"""Tables as files next to a log: places, data files, entries of Delta's log."""
