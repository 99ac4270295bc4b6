"""Streaming operators on micro-batches of Spark Structured Streaming."""
