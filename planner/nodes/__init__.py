"""Logical and physical plan nodes, and properties derived from them.

Nodes are frozen; a rule makes new ones. Knows neither rules nor steps.
"""
