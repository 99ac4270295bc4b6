"""The window operators of streams, one key group at a time, without Spark."""
