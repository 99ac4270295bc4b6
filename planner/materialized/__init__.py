"""Materialized tables: the partials they store and the queries that those answer."""
