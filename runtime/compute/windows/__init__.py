"""Slice assigners: which slice a time falls into, which windows a slice belongs to."""
