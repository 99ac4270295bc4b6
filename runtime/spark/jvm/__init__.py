"""The JVM of Spark's driver: which Java, what it runs, its start and its end."""
