"""The interactive prompt: `sqlwin repl`."""
