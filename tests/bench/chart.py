"""The table of results as a picture."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table


def save(table: Table, path: Path) -> None:
    """Write a table as SVG, as a terminal would show it."""
    console = Console(record=True, width=150, file=open("/dev/null", "w"))
    console.print(table)
    console.save_svg(str(path), title="python -m tests.bench")
