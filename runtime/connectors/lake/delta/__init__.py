"""Delta tables through the library deltalake: snapshots, streams of versions, commits."""
