"""Vectorised kernels on Arrow tables: key codes, blobs for the exchange, windows from slices."""
