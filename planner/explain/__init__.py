"""EXPLAIN output: plans as text, documents and diagrams."""
