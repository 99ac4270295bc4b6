"""Mutated statements, damaged files and random queries, without Spark."""
