"""Queries that this process computes without Spark: relations, and the step made of them."""
