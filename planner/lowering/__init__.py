"""Lowering of physical plans to runtime steps."""
