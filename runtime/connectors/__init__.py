"""Connectors: sources and sinks of tables."""
