"""Queries as SQL of other engines, planned without starting Spark."""
