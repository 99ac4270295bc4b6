"""Queries as SQL text of another engine: one SELECT over slices, windows and rows as CTEs.

Takes a physical plan and the name of a target. Returns the text, or raises `Refused` for anything
whose rows might differ on the target. Reads no files and knows no session.
"""
