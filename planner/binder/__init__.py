"""SQL trees to logical plans."""
