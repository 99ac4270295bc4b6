"""Output of results: tables, CSV, JSON, JSON lines, Markdown, progress."""
