"""Mutated statements, damaged files, random queries, and state machines."""
