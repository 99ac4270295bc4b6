"""Lowering of plans that run in this process without Spark because they read little."""
