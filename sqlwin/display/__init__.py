"""How results reach a screen or a file: tables, CSV, JSON, JSON lines, Markdown, progress."""
