"""Flink's JSON functions: their clauses, and the expressions of Spark that compute them."""
