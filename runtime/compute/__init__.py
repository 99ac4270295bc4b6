"""Vectorised computing on Arrow and NumPy. Does not import Spark."""
