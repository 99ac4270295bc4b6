"""Streaming queries: start, watch, resume, stop."""
