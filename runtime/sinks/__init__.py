"""How micro-batches of a stream reach tables: running sinks, late rows, the latest rows."""
