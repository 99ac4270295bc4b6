"""Lowering of physical plans over streams to steps."""
