"""Write a stream's micro-batches to tables: sinks, late rows, latest rows.

Takes a streaming DataFrame and sinks from the registry, and starts Spark's query. Knows no window
operator beyond the control columns of its rows.
"""
