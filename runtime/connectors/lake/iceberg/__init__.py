"""Iceberg tables through the library pyiceberg: snapshots, streams of snapshots, commits."""
