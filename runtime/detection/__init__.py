"""Detect format, dialect, columns and types of files from a sample, without Spark."""
