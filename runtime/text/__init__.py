"""Rows of CSV and JSON files without Spark, with the rows that Spark's readers give.

Takes files as described by `runtime.spec.text`. Knows no tables and no Spark.
"""
