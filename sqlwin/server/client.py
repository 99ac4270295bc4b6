"""One client's connection: its statements run on the served session."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pg_mimic
from pg_mimic import PgError, ResultColumn
from pg_mimic.middleware import set_show, transaction_control
from pg_mimic.session import CallbackStatement, StaticStatement

from runtime.errors import SqlwinError
from runtime.spec.table import Column
from sqlwin.control import SessionControl
from sqlwin.dbapi.fetching import FetchedRows, columns_of, count_of, is_unbounded, rows_of
from sqlwin.result import Result
from sqlwin.server.catalog.database import CatalogDatabase
from sqlwin.server.catalog.errors import CatalogQueryError
from sqlwin.server.catalog.parts import CatalogPart
from sqlwin.server.catalog.statement import answer_catalogs, answer_settings
from sqlwin.server.catalog.tables import ClientFacts
from sqlwin.server.cursors import answer_cursors, cursors_of
from sqlwin.server.jobs import ClientJobs, Pools
from sqlwin.server.objects import SessionObjects, declared_columns
from sqlwin.server.parameters import parameter_values
from sqlwin.server.postgres.names import ColumnNames
from sqlwin.server.postgres.statement import Translated, translate
from sqlwin.server.reading.guard import ReadingGuard
from sqlwin.server.translation import (
    SQLSTATES,
    SYSTEM_ERROR,
    UNSUPPORTED,
    ClientText,
    oid_of,
    result_value,
    sample_value,
)
from sqlwin.session import Session
from sqlwin.statements import nodes
from sqlwin.statements.parameters import bind_parameters
from sqlwin.statements.parse import read_statement
from sqlwin.statements.quotes import DoubleQuotes
from sqlwin.statements.split import SqlScript, read_script

T = TypeVar("T")

_WITH_ROWS = (
    nodes.Query,
    nodes.Advise,
    nodes.Explain,
    nodes.Describe,
    nodes.ShowCreateTable,
    nodes.ShowNames,
    nodes.ShowState,
    nodes.ShowStreams,
    nodes.Summarize,
)
# First words of Spark's statements that return rows
_SPARKS_ROWS = (
    "(",
    "DESC",
    "DESCRIBE",
    "FROM",
    "LIST",
    "SELECT",
    "SHOW",
    "TABLE",
    "VALUES",
    "WITH",
)
# SHOW of sqlwin; PostgreSQL's SHOW returns a setting
_SHOWN = re.compile(
    r"\s*SHOW\s+(TABLES|VIEWS|FUNCTIONS|STREAMS|JOBS|MATERIALIZED|CREATE|STATE|COLUMNS|DATABASES"
    r"|CATALOGS|SCHEMAS|PARTITIONS)\b",
    re.IGNORECASE,
)
# Statements that only PostgreSQL has
_MISSING = re.compile(
    r"\s*(COPY|LISTEN|UNLISTEN|NOTIFY|PREPARE)\b",
    re.IGNORECASE,
)
_EMPTY = re.compile(r"(\s|;|--[^\n]*(\n|$)|/\*.*?\*/)*", re.DOTALL)
UNDEFINED_PARAMETER = "42P02"
NOT_IN_STATE = "55000"


class ServedSession:
    """The session that all clients share.

    Args:
        session: Session with the tables.
        can_write: Whether clients may change it and write.
        double_quotes: Meaning of double quotes in the session.
        readable: Files and directories that clients may read by path if they may only read.

    Attributes:
        guard: Judge of the clients' statements. None: they may do everything.
        objects: Tables, views and functions for catalogs.
        pools: Pools of Spark's scheduler for the clients.

    Raises:
        SqlwinError: A readable path is invalid.
    """

    def __init__(
        self,
        session: Session,
        *,
        can_write: bool,
        double_quotes: str,
        readable: Sequence[str] = (),
    ) -> None:
        self.session = session
        self.control = SessionControl(session)
        self.quotes = DoubleQuotes(double_quotes)
        self.guard: ReadingGuard | None = None
        if not can_write:
            self.control.forbid_substitution()
            self.guard = ReadingGuard(self.control, readable)
        self.control.cancel_soon()
        self.objects = SessionObjects(self.control)
        self.pools = Pools()

    def columns_of(self, table: tuple[str, ...]) -> Sequence[Column]:
        """Return the columns of a table or view, none if it has no such name or cannot be read.

        Files and other names that only a guard may allow have no columns here.
        """
        is_table = self.control.is_declared(table) or (
            self.control.has_spark and self.control.is_known_to_spark(table)
        )
        if not is_table:
            return ()
        if declared := declared_columns(self.control.entry(table)):
            # the schema may start Spark
            return [Column(c.name, str(c.type), c.nullable) for c in declared]
        try:
            return self.control.schema_of(table, waits=True) or ()
        except SqlwinError:
            return ()


class PostgresClient(pg_mimic.Session):  # type: ignore[misc]
    """A client. Its statements run one after the other in a thread of its own.

    pg-mimic answers transactions and PostgreSQL's settings, `catalog` the catalogs.
    """

    middleware = (
        answer_cursors,
        answer_settings,
        transaction_control,
        set_show,
        answer_catalogs,
    )

    def __init__(self, served: ServedSession) -> None:
        self.served = served
        self._catalogs: CatalogDatabase | None = None
        self._jobs = ClientJobs(served.session, served.control, served.pools, self._warn)

    async def prepare(self, sql: str, param_oids: list[int | None]) -> Any:
        """Return a statement, without running it.

        Raises:
            PgError: The statement is invalid, or not allowed.
        """
        if _EMPTY.fullmatch(sql):
            return StaticStatement("", None, [])  # drivers ask so whether the connection works
        if not _SHOWN.match(sql):
            answered = await super().prepare(sql, param_oids)
            if not isinstance(answered, CallbackStatement):
                return answered
        statement = ClientStatement(self, sql, param_oids)
        await self.run(statement.read, statement.place)
        return statement

    def ask_catalogs(self, parts: frozenset[CatalogPart], ask: Callable[[CatalogDatabase], T]) -> T:
        """Ask PostgreSQL's catalogs of the session. Called in the client's thread.

        Args:
            parts: Parts of the session's objects that the question needs.
            ask: Asks the catalogs.

        Raises:
            PgError: The catalogs cannot answer.
        """
        objects, catalogs = self.served.objects.of(parts), self._catalogs
        if catalogs is None or not catalogs.objects.includes(objects):
            self._close_catalogs()
            connection = self._connection
            facts = ClientFacts(
                connection.username,
                connection.database,
                connection.pid,
                connection.session_vars["server_version"],
                connection.session_vars,
                lambda: [
                    (name, cursor.statement, cursor.is_held)
                    for name, cursor in cursors_of(connection)
                ],
            )
            catalogs = self._catalogs = CatalogDatabase(objects, facts)
        try:
            return ask(catalogs)
        except CatalogQueryError as error:
            raise PgError(error.sqlstate, error.message) from error

    async def close(self) -> None:
        """Let the thread end after its statement. Called when the client disconnects."""
        self._jobs.submit(self._close_catalogs)
        self._jobs.close()

    def _close_catalogs(self) -> None:
        if self._catalogs is not None:
            self._catalogs.close()
            self._catalogs = None

    def close_rows(self, rows: FetchedRows) -> None:
        """Free rows that the client does not fetch, after the statement that runs now."""
        self._jobs.submit(rows.close)

    async def run(self, work: Callable[[], T], place: Callable[[int], int] | None = None) -> T:
        """Run work in the client's thread. Cancelling it cancels its Spark jobs.

        Args:
            work: The work.
            place: Function that returns the place in the client's text of a place in an error.

        Raises:
            PgError: The work raised a SqlwinError.
        """

        def run() -> T:
            with _postgres_errors(place):
                return work()

        return await self._jobs.run(run)

    def _warn(self, text: str) -> None:
        self._connection.warn(text)


class _postgres_errors:
    """Raise SqlwinErrors of a block as errors of the protocol.

    Raises:
        PgError: The block raised a SqlwinError.
    """

    def __init__(self, place: Callable[[int], int] | None) -> None:
        self._place = place

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Translate an error of the block."""
        if not isinstance(error, SqlwinError):
            return
        fields = {}
        if error.hint is not None:
            fields["H"] = error.mask.text(error.hint)
        if error.position is not None and error.file is None:
            offset = error.position.offset
            fields["P"] = str((offset if self._place is None else self._place(offset)) + 1)
        sqlstate = SQLSTATES.get(error.kind, SYSTEM_ERROR)
        raise PgError(sqlstate, error.mask.text(error.message), **fields) from error


class ClientStatement(pg_mimic.Statement):  # type: ignore[misc]
    """A prepared statement.

    Attributes:
        sql: Text as the client sent it.
        param_oids: Types of the parameters as far as the client declared them.
    """

    def __init__(self, client: PostgresClient, sql: str, param_oids: Sequence[int | None]) -> None:
        self.sql = sql
        self._client = client
        self._translated = Translated(ClientText("", ()), {}, ColumnNames())
        self._text = self._translated.text
        self._script = SqlScript("", ())
        self._has_rows = False
        self._values: list[object] | None = None
        self._result: Result | None = None
        self.param_oids = list(param_oids)

    def read(self) -> None:
        """Parse the statement.

        Raises:
            SqlwinError: The statement is invalid.
            PgError: It is not allowed.
        """
        missing = _MISSING.match(self.sql)
        if missing:
            raise PgError(UNSUPPORTED, f"the server has no {missing[1].upper()}")
        served = self._client.served
        self._translated = translated = translate(
            self.sql, served.columns_of, served.quotes, self.param_oids
        )
        self._text = translated.text
        if 0 in self._text.numbers:
            raise PgError(UNDEFINED_PARAMETER, "there is no parameter $0")
        n_parameters = max(map(abs, self._text.numbers), default=0)
        n_parameters = max(n_parameters, len(self.param_oids))
        self.param_oids = [translated.oids.get(number + 1) for number in range(n_parameters)]
        self._script = script = read_script(self._text.text)
        if len(script.statements) != 1:
            raise PgError(UNSUPPORTED, f"expected one statement, but got {len(script.statements)}")
        (part,) = script.statements
        quotes = self._client.served.quotes
        try:
            statement = read_statement(bind_parameters(part, None, quotes=quotes))
        except SqlwinError as error:
            raise error.with_source(script.text, offset=part.offset) from error
        self._has_rows = returns_rows(statement)
        if self._client.served.guard is not None:
            self._client.served.guard.check_statement(statement)

    def place(self, offset: int) -> int:
        """Return the place in the client's text of a place in the translated one."""
        return self._translated.place(offset)

    def bind(self, params: list[Any]) -> ClientPortal:
        """Return the statement with values for its parameters. Does not run it.

        Raises:
            PgError: A value is invalid for its type.
        """
        values = parameter_values(params, self.param_oids)
        self._values = self._text.values(values)
        self._result = None
        return ClientPortal(self, self._values)

    async def describe(self) -> list[ResultColumn] | None:
        """Return the columns of the rows, None for a statement without rows.

        Plans a query. Before `bind`, with any values of the declared types.
        """
        if not self._has_rows:
            return None
        values = self._values
        if values is None:
            values = self._text.values([sample_value(oid) for oid in self.param_oids])
        result = await self._client.run(lambda: self.run(values), self.place)
        if self._values is values or not values:
            self._result = result
        columns = columns_of(result) or ()
        names = self._translated.names.of([column.name for column in columns])
        types = [oid_of(column.type) for column in columns]
        return [ResultColumn(*column) for column in zip(names, types, strict=True)]

    def take_result(self, values: list[object]) -> Result:
        """Return the result for some values: the one that was described, or a new one."""
        result, self._result = self._result, None
        if result is None or values is not self._values:
            result = self.run(values)
        return result

    def run(self, values: list[object]) -> Result:
        """Run the statement. The rows of a query are not computed yet.

        Raises:
            SqlwinError: The statement is invalid or fails.
        """
        served = self._client.served
        if not self._has_rows:
            served.objects.forget()
        (result,) = served.control.run_script(
            self._script, None, values, ignores_unused=False, guard=served.guard
        )
        if is_unbounded(result):
            raise PgError(
                UNSUPPORTED,
                "the query reads an unbounded stream, and a client waits for the last row",
                H="add LIMIT, or query a table that an INSERT fills",
            )
        return result


class ClientPortal(pg_mimic.Portal):  # type: ignore[misc]
    """A statement with values, whose rows are fetched.

    Attributes:
        n_written: Number of rows that a statement without rows has written.
    """

    def __init__(self, statement: ClientStatement, values: list[object]) -> None:
        self._statement = statement
        self._values = values
        self._rows: FetchedRows | None = None
        self._oids: list[int] = []
        self._is_complete = False
        self.n_written = 0

    def close(self) -> None:
        """Cancel the rest of the query."""
        if self._rows is not None:
            self._statement._client.close_rows(self._rows)

    async def execute(self, max_rows: int) -> tuple[list[tuple[object, ...]], bool]:
        """Return the next rows, at most `max_rows` if it is positive, and whether more may follow.

        The first call runs the statement. The limit does not apply to a statement without
        rows.

        Raises:
            PgError: The statement has no rows and has run, or it fails.
        """
        if self._is_complete:
            raise PgError(NOT_IN_STATE, "the portal cannot be run again, because it is complete")
        rows = await self._statement._client.run(lambda: self._fetch(max_rows))
        return rows, self._rows is not None and 0 < max_rows == len(rows)

    def _fetch(self, max_rows: int) -> list[tuple[object, ...]]:
        if self._rows is None:
            result = self._statement.take_result(self._values)
            self._rows = rows_of(result)
            if self._rows is None:
                self._is_complete = True
                self.n_written = count_of(result) or 0
                return []
            self._oids = [oid_of(column.type) for column in columns_of(result) or ()]
        return [
            tuple(result_value(value, oid) for value, oid in zip(row, self._oids, strict=True))
            for row in self._rows.take(max_rows if max_rows > 0 else sys.maxsize)
        ]


def returns_rows(statement: nodes.Statement) -> bool:
    """Return whether a statement has a result with rows."""
    if isinstance(statement, nodes.SparkStatement):
        return statement.tokens[0].text.upper() in _SPARKS_ROWS
    if isinstance(statement, nodes.Set):
        return statement.value is None
    return isinstance(statement, _WITH_ROWS)
