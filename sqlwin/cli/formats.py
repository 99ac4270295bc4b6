"""The formats that rows are written in, by name and by suffix of a file."""

from __future__ import annotations

FORMATS = ("table", "csv", "json", "jsonl", "markdown", "chart")
FORMAT_OF_SUFFIX = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "table",
}

EXPLAIN_FORMAT_OF_SUFFIX = {
    ".json": "json",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".html": "html",
    ".htm": "html",
}
