"""Changes of Spark's part of a checkpoint: another copy of it takes its place."""
