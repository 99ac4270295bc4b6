"""Output of results: tables, CSV, JSON, JSON lines, Markdown, charts, progress.

Takes Arrow batches and a stream to write to. Knows no statements.
"""
