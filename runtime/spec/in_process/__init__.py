"""Queries computed in this process without Spark: relations, and the step that consists of them."""
