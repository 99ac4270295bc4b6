"""Result formats by name and file suffix.

Writers are imported when there are rows.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from runtime.spec.figures import seconds_text

if TYPE_CHECKING:
    from sqlwin.display.formats import Writer

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


def writer_of(format: str, to_file: bool, *, has_header: bool = True) -> Writer:
    """Return the writer of a format other than `table`.

    Args:
        format: One of `FORMATS`.
        to_file: Whether the rows go to a file instead of the screen.
        has_header: Whether CSV begins with the names of the columns.
    """
    if format == "chart":
        from sqlwin.display.charts.text import write_chart

        return partial(write_chart, color=False) if to_file else write_chart
    from sqlwin.display.formats import write_csv, write_json, write_json_lines, write_markdown

    writers: dict[str, Writer] = {
        "csv": write_csv if has_header else partial(write_csv, has_header=False),
        "json": write_json,
        "jsonl": write_json_lines,
        "markdown": write_markdown,
    }
    return writers[format]


def elapsed_text(started: float) -> str:
    """Return the time elapsed since `started`, a value of `time.monotonic`."""
    return seconds_text(time.monotonic() - started)
