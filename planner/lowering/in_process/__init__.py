"""Lowering of plans that this process computes without Spark, because they read little."""
