"""Aggregates that keep the values of a slice: DISTINCT, percentiles, LISTAGG."""
