"""State of key groups: blobs, slices, sessions, spans, emitted results and general windows."""
