"""How the prompt shows things; backslash commands change it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

# Rows of a table at the prompt: it is held in memory
DEFAULT_MAX_ROWS = 1_000


@dataclass
class ReplOptions:
    """The switches.

    Attributes:
        format: how rows are written: `table`, `csv`, ...
        vertical: `on` shows each row as a block of lines, `auto` where a table is too wide.
        timing: whether the time that a statement took is told.
        pager: whether what does not fit on the screen goes to a pager.
        null: what NULL looks like in tables.
        max_rows: the most rows of a table; None shows all.
        keys: `emacs` or `vi`.
        output: where rows go instead of the screen, with its name.
    """

    format: str = "table"
    vertical: str = "off"
    timing: bool = True
    pager: bool = True
    null: str = "NULL"
    max_rows: int | None = DEFAULT_MAX_ROWS
    keys: str = "emacs"
    output: tuple[Path, TextIO] | None = None
