"""DataFrame code shared by batch and streaming queries."""
