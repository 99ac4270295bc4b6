"""DataFrame code shared by batch and streaming queries.

Takes DataFrames and steps of `runtime.spec` and gives DataFrames, counters and reports. Knows no
operator: `runtime.engines` and `runtime.streaming` use it.
"""
