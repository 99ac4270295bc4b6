"""JVM of Spark's driver: the Java to use, the command line, start and end."""
