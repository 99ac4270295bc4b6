"""Tables of a lake, Delta and Iceberg, by libraries of Python: no jar is needed."""
