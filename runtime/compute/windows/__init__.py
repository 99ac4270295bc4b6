"""Slice assigners: map times to slices, and slices to windows."""
