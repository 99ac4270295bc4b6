"""The window operators of streams."""
