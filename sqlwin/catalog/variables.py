"""Python variables as tables: `FROM df` in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlwin.catalog.entries import Name, Registered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def no_variable(_: str) -> DataFrame | None:
    """Return None, as if there were no variables."""
    return None


class Variables:
    """Python variables that a statement reads, converted once per statement.

    A later statement converts them again, because the program may have changed their rows.

    Attributes:
        find: Function that returns the rows of a variable, or None if it does not exist or
            it has no rows.
    """

    def __init__(self) -> None:
        self.find: Callable[[str], DataFrame | None] = no_variable
        self._entries: dict[str, Registered | None] = {}

    def entry(self, name: Name, is_taken: Callable[[], bool]) -> Registered | None:
        """Return the rows of a variable, or None.

        Args:
            name: Name in the SQL, in the case of the variable.
            is_taken: Function that returns whether Spark has a table of that name, which takes
                precedence.
        """
        if len(name) != 1:
            return None
        (variable,) = name
        if variable not in self._entries:
            rows = self.find(variable)
            if rows is not None and is_taken():
                rows = None
            self._entries[variable] = None if rows is None else Registered(name, rows)
        return self._entries[variable]

    def start_statement(self) -> list[Name]:
        """Clear the cache, and return the names that the last statement read."""
        names = [entry.name for entry in self._entries.values() if entry is not None]
        self._entries.clear()
        return names
