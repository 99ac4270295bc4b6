"""Tables, columns and functions of the session, cached for completion."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from runtime.errors import QueryCancelled, SqlwinError
from runtime.names import quote_name
from sqlwin.control import SessionControl
from sqlwin.repl.session_thread import SessionState, SessionThread

if TYPE_CHECKING:
    from sqlwin.session import Session

# Maximum tables whose columns are fetched in advance
_EAGER_TABLES = 20

Columns = tuple[tuple[str, str], ...]
# Start of a path that stands for a table
QUOTE = "'"


class Names(Protocol):
    """Names that can be completed."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of tables and views."""

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of functions."""

    def columns(self, table: str) -> Columns:
        """Return names and types of a table's columns, empty if unknown."""


class SessionNames:
    """Names in the session, fetched in the background while no statement runs."""

    def __init__(self, thread: SessionThread) -> None:
        self.tables: tuple[str, ...] = ()
        self.functions: tuple[str, ...] = ()
        self.double_quotes = ""
        self._thread = thread
        self._columns: dict[str, Columns | None] = {}
        self._requested: list[str] = []
        self._is_stale = True
        self._has_all_functions = False
        self._pending: Future[Any] | None = None

    def columns(self, table: str) -> Columns:
        """Return names and types of a table's columns, empty if not known yet."""
        key = table.lower()
        if key not in self._columns:
            self._columns[key] = None
            self._requested.append(table)
            self.learn_soon()
        return self._columns[key] or ()

    def forget(self) -> None:
        """Mark the names as outdated, because tables may have changed."""
        self._is_stale = True

    def learn_soon(self) -> None:
        """Fetch missing names when the session has nothing else to do."""
        if self._thread.state is not SessionState.READY:
            return
        if self._pending is not None and not self._pending.done():
            return
        if self._is_stale or self._requested:
            self._pending = self._thread.submit(self._learn, quiet=True)

    def stop_learning(self) -> None:
        """Cancel fetching, so that the user's statements run first."""
        if self._pending is not None:
            self._thread.cancel(self._pending)

    # -- in the thread of the session ----------------------------------------------------------

    def _learn(self, session: Session) -> None:
        control = SessionControl(session)
        has_spark = control.has_spark
        try:
            # Do not start Spark for completion. The names are fetched again once it runs.
            with nullcontext() if has_spark else control.without_start_of_spark():
                self._look_up(session, has_spark=has_spark)
        except QueryCancelled:
            # the user's statement goes first; fetch again afterwards
            self._is_stale = True

    def _look_up(self, session: Session, *, has_spark: bool) -> None:
        if self._is_stale:
            self._is_stale = False
            self.tables = tuple(str(row[0]) for row in _rows(session, "SHOW TABLES"))
            for row in _rows(session, "SET 'sqlwin.double-quotes'"):
                self.double_quotes = str(row[1])
            self._columns = {}
            self._requested = list(self.tables[:_EAGER_TABLES])
            if not has_spark:
                from sqlwin.help.functions import FUNCTIONS

                self.functions = tuple(name.lower() for name in FUNCTIONS)
            elif not self._has_all_functions:
                self._has_all_functions = True
                self.functions = tuple(str(row[0]) for row in _rows(session, "SHOW FUNCTIONS"))
        elif self._requested:
            table = self._requested.pop()
            columns = []
            for row in _rows(session, describe(table)):
                if not row[0] or str(row[0]).startswith("#"):
                    break  # the following rows list partitions
                columns.append((str(row[0]), str(row[1])))
            self._columns[table.lower()] = tuple(columns)


def describe(table: str) -> str:
    """Return DESCRIBE of a dotted name, or of the path of files in single quotes."""
    return f"DESCRIBE {table if table.startswith(QUOTE) else quote_name(*table.split('.'))}"


def _rows(session: Session, statement: str) -> Sequence[Any]:
    """Return the rows of a statement, or none if it fails, because completion is optional."""
    try:
        (result,) = session.execute(statement)
        return result.rows
    except QueryCancelled:
        raise
    except SqlwinError:
        return ()
