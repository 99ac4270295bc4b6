"""EXPLAIN output: plans as text, documents and diagrams.

Takes plans and measurements and gives a typed document, from which text and diagrams are rendered.
Makes no planning decisions.
"""
