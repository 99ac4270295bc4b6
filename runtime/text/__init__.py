"""Rows of CSV and JSON files without Spark, with the rows that Spark's readers give.

Takes files as described by `runtime.spec.in_process.text`. Knows no tables and no Spark.
"""
