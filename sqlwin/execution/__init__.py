"""Statement execution: planning, running, EXPLAIN and measurements."""
