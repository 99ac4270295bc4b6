"""Interactive prompt: `sqlwin repl`."""
