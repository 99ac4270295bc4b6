"""Bind queries over all rows of a stream: groups without a window."""
