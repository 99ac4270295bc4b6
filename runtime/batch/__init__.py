"""The batch operators, on Spark DataFrames.

Takes frozen steps from `runtime.spec` and returns DataFrames that compute them. Knows no SQL syntax
and no plan nodes; the kernels that it runs in tasks are in `runtime.compute` and `runtime.local`.
"""
