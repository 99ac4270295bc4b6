"""Logical and physical plan nodes, and their properties."""
