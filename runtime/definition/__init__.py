"""Computes the rows of a query by definition, row by row, in plain Python.

The simulator compares batch and streams with it. It knows no slices, partials, state or rules: a
window is a pair of times, a group a list of rows. Only scalar expressions are evaluated by the
engine (`runtime.compute.arrow`). Docs: the semantics of windows are in docs/windows.md.
"""
