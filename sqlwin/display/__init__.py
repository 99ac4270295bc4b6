"""How results reach a person or a file: tables, CSV, JSON, JSON lines, Markdown, progress."""
