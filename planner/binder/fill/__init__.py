"""Gap filling: the FILL clause of a window aggregation, and the table function GAP_FILL."""
