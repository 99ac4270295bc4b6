"""Parsing of scripts into statements, without executing anything.

Takes script text and parameter values and gives statement nodes with positions. Knows no catalog.
"""
