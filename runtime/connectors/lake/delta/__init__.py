"""Tables of Delta, by the library deltalake: snapshots, streams of versions, commits."""
