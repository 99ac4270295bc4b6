"""Aggregate functions and how they are computed from slices.

Takes aggregate calls with types and gives partials, accumulators and result expressions.
"""
