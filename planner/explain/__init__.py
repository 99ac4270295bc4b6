"""EXPLAIN: plans as text, documents and diagrams."""
