"""What executes on Spark: slice assigners, accumulators, kernels, operators, sources and sinks."""
