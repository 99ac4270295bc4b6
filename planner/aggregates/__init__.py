"""Aggregate functions: how each is computed from slices."""
