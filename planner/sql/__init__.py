"""SQL trees: nodes, builders, rendering, names, intervals.

Takes and gives sqlglot trees, before and after binding. Knows no plan.
"""
