"""Statements carried out: planned, run, explained, measured."""
