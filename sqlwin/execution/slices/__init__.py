"""Materialized tables in statements: what they keep, rows that are inserted, options."""
