"""Connections and cursors of the DB-API."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING, SupportsIndex

import pyarrow as pa

from runtime.errors import SqlwinError
from sqlwin.control import SessionControl
from sqlwin.dbapi import errors
from sqlwin.dbapi.errors import InterfaceError, ProgrammingError, Warning, standard_errors
from sqlwin.dbapi.fetching import FetchedRows, columns_of, count_of, is_unbounded, rows_of
from sqlwin.dbapi.types import ColumnDescription, describe
from sqlwin.result import Result
from sqlwin.statements.batches import combined
from sqlwin.statements.split import SqlScript, read_script

if TYPE_CHECKING:
    from sqlwin.session import Session
    from sqlwin.statements.parameters import Params


class Connection:
    """A connection to a session. Threads may share it; each uses cursors of its own.

    Args:
        session: Session that runs the statements.
        closes_session: Whether `close` closes the session.
    """

    # the standard's optional extension, for programs with connections to several databases
    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, session: Session, *, closes_session: bool) -> None:
        self._session = session
        self._closes_session = closes_session
        self._is_closed = False

    @property
    def session(self) -> Session:
        """Session that runs the statements: for scripts, streams and registered rows.

        Raises:
            InterfaceError: The connection is closed.
        """
        if self._is_closed:
            raise errors.InterfaceError("the connection is closed")
        return self._session

    @property
    def autocommit(self) -> bool:
        """True: each statement takes effect at once."""
        return True

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if not value:
            raise errors.NotSupportedError(
                "sqlwin has no transactions: each statement takes effect at once"
            )

    def cursor(self) -> Cursor:
        """Return a new cursor.

        Raises:
            InterfaceError: The connection is closed.
        """
        _ = self.session
        return Cursor(self)

    def execute(self, operation: str, parameters: Params = ()) -> Cursor:
        """Run a statement on a new cursor and return the cursor; see `Cursor.execute`."""
        return self.cursor().execute(operation, parameters)

    def executemany(
        self, operation: str, seq_of_parameters: Sequence[Sequence[object] | Mapping[str, object]]
    ) -> Cursor:
        """Run a statement once per set of parameters on a new cursor, and return the cursor."""
        return self.cursor().executemany(operation, seq_of_parameters)

    def commit(self) -> None:
        """Do nothing: each statement has taken effect.

        Raises:
            InterfaceError: The connection is closed.
        """
        _ = self.session

    def rollback(self) -> None:
        """Refuse: statements cannot be undone.

        Raises:
            InterfaceError: The connection is closed.
            NotSupportedError: Always.
        """
        _ = self.session
        raise errors.NotSupportedError(
            "sqlwin has no transactions: the statements have taken effect"
        )

    def close(self) -> None:
        """Close the connection, and its session if `connect` opened it. Stops its streams."""
        if not self._is_closed:
            self._is_closed = True
            if self._closes_session:
                self._session.close()

    def __enter__(self) -> Connection:
        _ = self.session
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cursor:
    """A cursor: runs one statement at a time and returns its rows.

    Attributes:
        arraysize: Number of rows that `fetchmany` returns by default.
        connection: Connection of the cursor.
        description: One item per column of the rows. None for a statement without rows.
        rowcount: Number of rows that an INSERT wrote. -1 for queries, which return rows while they
            are computed, and for streams.
        messages: Notes about the result, as pairs of class and text.
    """

    def __init__(self, connection: Connection) -> None:
        self.arraysize = 1
        self.connection = connection
        self._is_closed = False
        self._reset()

    def _reset(self) -> None:
        self.description: tuple[ColumnDescription, ...] | None = None
        self.rowcount = -1
        self.messages: list[tuple[type[Exception], str]] = []
        self._rows: FetchedRows | None = None
        self._result: Result | None = None

    # -- running statements ------------------------------------------------------------------------

    def execute(self, operation: str, parameters: Params = ()) -> Cursor:
        """Run one statement. The rows of an earlier one are discarded.

        A query has computed its first rows when this returns, except over an unbounded stream. An
        INSERT from an unbounded stream runs in the background until the connection is closed.

        Args:
            operation: The statement, with `?` or `:name` for the parameters.
            parameters: Values: a sequence for `?`, a mapping for `:name`. See `Session.execute`.

        Returns:
            This cursor.

        Raises:
            InterfaceError: The cursor or its connection is closed.
            DatabaseError: The statement is invalid or fails.
        """
        self._check_open()
        self._discard()
        with self._computing():
            self._show(self._run(_read(operation), parameters))
        return self

    def executemany(
        self, operation: str, seq_of_parameters: Iterable[Sequence[object] | Mapping[str, object]]
    ) -> Cursor:
        """Run one statement without rows once per set of parameters. `rowcount` is the sum.

        `INSERT INTO t VALUES (...)` runs as one INSERT of many rows; see `combined`.

        Returns:
            This cursor.

        Raises:
            InterfaceError: The cursor or its connection is closed.
            ProgrammingError: The statement is a query.
            DatabaseError: The statement is invalid, or fails: INSERTs of earlier sets have taken
                effect.
        """
        self._check_open()
        self._discard()
        n_rows: int | None = 0
        with self._computing():
            statement = _read(operation)
            entry_of = SessionControl(self.connection.session).entry
            for script, parameters in combined(statement, seq_of_parameters, entry_of):
                result = self._run(script, parameters)
                if columns_of(result) is not None:
                    raise ProgrammingError(
                        "executemany() does not return rows: run the query with execute()"
                    )
                count = count_of(result)
                n_rows = None if n_rows is None or count is None else n_rows + count
        self.rowcount = -1 if n_rows is None else n_rows
        return self

    def _run(self, script: SqlScript, parameters: Params) -> Result:
        control = SessionControl(self.connection.session)
        (result,) = control.run_script(script, None, parameters, ignores_unused=False)
        return result

    def _show(self, result: Result) -> None:
        """Make the rows of a result the rows of the cursor."""
        self._result = result
        columns = columns_of(result)
        if columns is None:
            count = count_of(result)
            self.rowcount = -1 if count is None else count
        else:
            self.description = tuple(describe(column) for column in columns)
            self._rows = rows_of(result)
            if self._rows is not None and not is_unbounded(result):
                self._rows.load()
        self._note(result)

    def _note(self, result: Result) -> None:
        self.messages = [(Warning, note) for note in result.notes]

    # -- rows --------------------------------------------------------------------------------------

    @property
    def rownumber(self) -> int | None:
        """Index of the next row, from 0. None without rows."""
        return None if self._rows is None else self._rows.n_returned

    def fetchone(self) -> tuple[object, ...] | None:
        """Return the next row, None after the last one. Waits for the rows of a stream.

        Raises:
            InterfaceError: The cursor or its connection is closed.
            ProgrammingError: The last statement has no rows.
            DatabaseError: Computing the rows failed.
        """
        rows = self._take(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[object, ...]]:
        """Return the next `size` rows, by default `arraysize`, and fewer only at the end.

        Raises: See `fetchone`.
        """
        wanted: object = self.arraysize if size is None else size
        if not isinstance(wanted, SupportsIndex) or (n_rows := index(wanted)) < 0:
            raise ProgrammingError(f"fetchmany() takes a size of at least 0, but got {wanted!r}")
        return self._take(n_rows)

    def fetchall(self) -> list[tuple[object, ...]]:
        """Return all remaining rows, in memory.

        Raises: See `fetchone`. Also refuses an unbounded stream.
        """
        self._check_bounded("fetchall()")
        return self._take(sys.maxsize)

    def fetch_arrow_table(self) -> pa.Table:
        """Return all remaining rows as an Arrow table; `Result.to_arrow` describes its types.

        Raises: See `fetchall`.
        """
        self._check_bounded("fetch_arrow_table()")
        rows = self._open_rows()
        with self._computing():
            return rows.take_table()

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        """Return this cursor: iterating returns row by row."""
        return self

    def __next__(self) -> tuple[object, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def _take(self, n_rows: int) -> list[tuple[object, ...]]:
        rows = self._open_rows()
        with self._computing():
            taken = rows.take(n_rows)
        if len(taken) < n_rows and self._result is not None:
            self._note(self._result)  # some notes are known after the last row
        return taken

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Compute rows in the block. If it fails, no later fetch returns an incomplete result."""
        try:
            with standard_errors():
                yield
        except BaseException:
            self._discard()
            raise

    def _open_rows(self) -> FetchedRows:
        self._check_open()
        if self._rows is None:
            raise ProgrammingError("no rows to fetch: execute a query first")
        return self._rows

    def _check_bounded(self, method: str) -> None:
        if self._result is not None and is_unbounded(self._result):
            raise ProgrammingError(
                f"{method} needs rows that end, but the query reads an unbounded stream\n"
                "  use fetchone(), fetchmany() or iteration, or INSERT INTO to store the rows"
            )

    # -- the rest of the standard ------------------------------------------------------------------

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Do nothing: sizes are not needed."""
        self._check_open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing: values are never cut."""
        self._check_open()

    def close(self) -> None:
        """Close the cursor and cancel its query. `description` and `rowcount` keep their values."""
        self._cancel()
        self._is_closed = True

    def __enter__(self) -> Cursor:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        _ = self.connection.session

    def _discard(self) -> None:
        """Cancel the query of the last statement, and forget its result."""
        self._cancel()
        self._reset()

    def _cancel(self) -> None:
        if self._rows is not None:
            self._rows.close()


def _read(operation: str) -> SqlScript:
    """Return the tokens of one statement.

    Raises:
        SqlSyntaxError: The text has no tokens of SQL.
        ProgrammingError: It is not a string, or has no statement, or several.
    """
    if not isinstance(operation, str):
        raise ProgrammingError(f"the statement must be a string, not {type(operation).__name__}")
    try:
        script = read_script(operation)
    except SqlwinError as error:
        raise error.with_source(operation) from error
    n_statements = len(script.statements)
    if n_statements != 1:
        raise ProgrammingError(
            f"execute() takes one statement, but got {n_statements}\n"
            "  run scripts with connection.session.execute()"
        )
    return script
