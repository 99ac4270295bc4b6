"""Binding of SQL trees to logical plans."""
