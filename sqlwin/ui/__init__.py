"""The page of what runs: a model, a local server, metrics."""
