"""Materialized tables in statements: stored aggregates, inserted rows, options."""
