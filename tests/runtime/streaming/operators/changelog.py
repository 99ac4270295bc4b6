"""A reader of a changelog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


class Changelog:
    """Current rows for a reader of a changelog. Refuses changes that contradict them.

    Attributes:
        rows: Values of each row, by its name: the first columns, such as key and window.

    Args:
        n_names: Number of columns that name a row.
    """

    def __init__(self, n_names: int = 3) -> None:
        self.rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._n_names = n_names

    def take(self, changes: Iterable[Sequence[Any]]) -> None:
        """Apply changes. `+U` directly follows the `-U` of its row and has other values."""
        replaced = None
        for kind, *row in changes:
            name, values = tuple(row[: self._n_names]), tuple(row[self._n_names :])
            if kind in ("-U", "-D"):
                assert self.rows.pop(name) == values
                replaced = (name, values) if kind == "-U" else None
                continue
            assert name not in self.rows
            if kind == "+U":
                assert replaced is not None
                assert replaced[0] == name
                assert replaced[1] != values
            else:
                assert kind == "+I"
                assert replaced is None
            replaced, self.rows[name] = None, values
