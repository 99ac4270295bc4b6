"""The tables of a session, with columns that are known without asking Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from runtime.redaction import Mask
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import MaterializedTable, Name, View
from sqlwin.catalog.materialized import tables_of
from sqlwin.catalog.offline import NeedsSpark, OfflineCatalog


class KnownCatalog(OfflineCatalog):
    """What a session's catalog has, planned over as if there were no Spark.

    Its tables and views are those of the session, at the beginning of a statement; nothing of it is
    shown to Spark. What only Spark knows raises `NeedsSpark`.

    Args:
        of: the session's catalog.
        mask: what looks secret now.
    """

    def __init__(self, of: SessionCatalog, mask: Callable[[], Mask]) -> None:
        super().__init__(mask)
        self._of = of

    def start_statement(self, mode: str, *, per_split: str = "auto") -> None:
        """Tables, views and aggregates are those that the session has now; files may have come."""
        super().start_statement(mode, per_split=per_split)
        self.entries.by_name = self._of.entries.by_name
        self._aggregates = self._of.aggregates()

    def with_options(self, name: Name, options: Sequence[tuple[str, str]]) -> NoReturn:
        """Raises `NeedsSpark`: the session keeps what statements change in its tables."""
        raise NeedsSpark

    def has_slices_of(self, names: Sequence[Name]) -> bool:
        """Whether some of the tables that a query names, or its views do, may have slices."""
        kept = self.materialized()
        bases = {table.name.lower() for entry in kept for table in entry.definition.tables}
        seen: set[Name] = set()
        rest = list(names) if kept else []
        while rest:
            name = rest.pop()
            entry = self.entry(name)
            if isinstance(entry, MaterializedTable) or ".".join(name).lower() in bases:
                return True
            if isinstance(entry, View) and name not in seen:
                seen.add(name)
                rest += tables_of(entry.query)
        return False
