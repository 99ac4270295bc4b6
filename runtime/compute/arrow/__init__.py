"""Scalar expressions over Arrow batches, with Spark's semantics and errors."""
