"""The streaming operators, on micro-batches of Spark's Structured Streaming."""
