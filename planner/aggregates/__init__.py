"""Aggregate functions and how they are computed from slices."""
