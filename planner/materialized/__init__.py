"""Materialized tables: what is kept of a query, and which queries that answers."""
