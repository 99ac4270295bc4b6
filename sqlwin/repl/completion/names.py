"""Names that completion knows: tables, columns and functions of the session, learnt from it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from runtime.errors import QueryCancelled, SqlwinError
from runtime.names import quoted
from sqlwin.repl.session_thread import SessionState, SessionThread

if TYPE_CHECKING:
    from sqlwin.session import Session

# Tables whose columns are looked up before anybody asks
_EAGER_TABLES = 20

Columns = tuple[tuple[str, str], ...]


class KnownNames:
    """What the session holds, asked for in the background while nobody waits for it."""

    def __init__(self, thread: SessionThread) -> None:
        self.tables: tuple[str, ...] = ()
        self.functions: tuple[str, ...] = ()
        self.double_quotes = ""
        self._thread = thread
        self._columns: dict[str, Columns | None] = {}
        self._wanted: list[str] = []
        self._is_stale = True
        self._pending: Future[Any] | None = None

    def columns(self, table: str) -> Columns:
        """Names and types of the columns of a table; empty if they are not known yet."""
        key = table.lower()
        if key not in self._columns:
            self._columns[key] = None
            self._wanted.append(table)
            self.learn_soon()
        return self._columns[key] or ()

    def forget(self) -> None:
        """Tables may have come or changed."""
        self._is_stale = True

    def learn_soon(self) -> None:
        """Have it look up what is not known, when it has nothing else to do."""
        if self._thread.state is not SessionState.READY:
            return
        if self._pending is not None and not self._pending.done():
            return
        if self._is_stale or self._wanted:
            self._pending = self._thread.submit(self._learn, quiet=True)

    def stop_learning(self) -> None:
        """Let the user's statements go first."""
        if self._pending is not None:
            self._thread.cancel(self._pending)

    # -- in the thread of the session ----------------------------------------------------------

    def _learn(self, session: Session) -> None:
        try:
            self._look_up(session)
        except QueryCancelled:
            # for a statement of the user's: asked for again after it
            self._is_stale = True

    def _look_up(self, session: Session) -> None:
        if self._is_stale:
            self._is_stale = False
            self.tables = tuple(str(row[0]) for row in _rows(session, "SHOW TABLES"))
            for row in _rows(session, "SET 'sqlwin.double-quotes'"):
                self.double_quotes = str(row[1])
            self._columns = {}
            self._wanted = list(self.tables[:_EAGER_TABLES])
            if not self.functions:
                self.functions = tuple(str(row[0]) for row in _rows(session, "SHOW FUNCTIONS"))
        elif self._wanted:
            table = self._wanted.pop()
            found = []
            for row in _rows(session, f"DESCRIBE {quoted(*table.split('.'))}"):
                if not row[0] or str(row[0]).startswith("#"):
                    break  # from here on Spark lists partitions
                found.append((str(row[0]), str(row[1])))
            self._columns[table.lower()] = tuple(found)


def _rows(session: Session, statement: str) -> Sequence[Any]:
    """The rows of a statement; none if it fails: completion then proposes less."""
    try:
        (result,) = session.execute(statement)
        return result.rows
    except QueryCancelled:
        raise
    except SqlwinError:
        return ()
