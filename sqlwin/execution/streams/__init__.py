"""Streaming queries: started, watched, resumed, stopped."""
