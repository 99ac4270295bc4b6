"""Rules for queries over all rows of a stream, without a window."""
