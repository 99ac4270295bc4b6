"""Slices of windows in state. This room knows partials and blobs, but no SQL and no Spark."""
