"""Joins of windows, and of streams within an interval."""
