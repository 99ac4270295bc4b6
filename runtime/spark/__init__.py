"""Spark itself: session, JVM, workers, errors and status."""
