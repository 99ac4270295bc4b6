"""Vectorised computing on Arrow and NumPy, without Spark.

Takes specs from `runtime.spec` and Arrow tables, and returns Arrow tables. Knows no files, no SQL
text and no tasks; `runtime.local`, `runtime.engines` and `runtime.streaming` call it.
"""
