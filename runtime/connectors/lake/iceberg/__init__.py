"""Tables of Iceberg, by the library pyiceberg: snapshots, streams of versions, commits."""
