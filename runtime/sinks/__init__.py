"""Write a stream's micro-batches to tables: sinks, late rows, latest rows."""
