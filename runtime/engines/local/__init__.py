"""The engine of this process: it computes plans without Spark."""
