"""SQL trees: nodes, builders, rendering, names, intervals."""
