"""Vectorised computing on Arrow and NumPy. Nothing here imports Spark."""
