"""Hybrid tables: a history, and the table that continues it."""
