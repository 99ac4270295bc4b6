"""Engines that queries are compiled for, each with the functions that it writes in its own way."""
