"""Connectors: where tables come from and where rows go."""
