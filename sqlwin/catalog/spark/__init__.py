"""Spark's part of the catalog: its analyser, its tables and functions, and sqlwin's views in it."""
