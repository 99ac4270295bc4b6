"""Statements that Spark runs unchanged, and the checks that Spark itself leaves out."""
