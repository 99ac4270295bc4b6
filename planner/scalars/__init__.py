"""Scalar functions and operators: types and NULLs as in Spark, and calls for Arrow's kernels.

`functions` is the table. `values` and `output_schema` find the types of expressions and queries
with it, `planner.arrow.expressions` translates expressions with it.
"""
