"""EXPLAIN output: plans as text, documents and diagrams.

Takes plans and measurements and gives a typed document, which text and diagrams are made from.
Plans nothing and decides nothing.
"""
