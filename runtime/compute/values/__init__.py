"""Aggregates over a slice's values instead of a fixed state: DISTINCT, percentiles, LISTAGG."""
