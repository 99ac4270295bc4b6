"""What files are, found from a sample of them, without Spark: format, dialect, columns, types."""
