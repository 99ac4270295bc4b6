"""Translation of Spark SQL into expressions that the Arrow scan evaluates."""
