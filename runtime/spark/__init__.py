"""Spark itself: its session, JVM, workers, errors and status."""
