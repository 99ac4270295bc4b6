"""Slice tables: partials stored in Delta tables and kept in step with the base table's files."""
