"""Vectorised kernels on Arrow tables: key codes, grouping, windows from slices, sessions, ranks."""
