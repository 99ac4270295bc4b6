"""Streaming operators on micro-batches of Spark Structured Streaming.

Takes steps from `runtime.plan.streams` and returns streaming DataFrames of emitted windows.
Owns checkpoints, state and watermarks. Knows no SQL and no sinks: `runtime.sinks` writes the rows.
"""
