"""Cursors: DECLARE, FETCH, MOVE and CLOSE.

As in PostgreSQL a cursor is a portal with a name. It reads forward only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pg_mimic
from pg_mimic import PgError, ResultColumn
from pg_mimic.connection import PortalEntry
from pg_mimic.middleware import MiddlewareContext
from pg_mimic.session import StaticStatement

_NAME = r'(?P<name>"(?:[^"]|"")+"|[a-z_][\w$]*)'
_DECLARE = re.compile(
    rf"\s*DECLARE\s+{_NAME}\s+(?P<options>(?:(?:BINARY|ASENSITIVE|INSENSITIVE|NO\s+SCROLL|SCROLL)"
    r"\s+)*)CURSOR\s+(?:(?P<hold>WITH|WITHOUT)\s+HOLD\s+)?FOR\b(?P<query>.*)",
    re.IGNORECASE | re.DOTALL,
)
_FETCH = re.compile(
    r"\s*(?P<verb>FETCH|MOVE)\s+"
    r"(?:(?P<direction>NEXT|PRIOR|FIRST|LAST|ABSOLUTE|RELATIVE|FORWARD|BACKWARD)\b\s*)?"
    r"(?P<count>ALL\b|[+-]?\d+)?\s*(?:(?:FROM|IN)\b\s*)?"
    rf"{_NAME}\s*;?\s*",
    re.IGNORECASE,
)
_CLOSE = re.compile(rf"\s*CLOSE\s+{_NAME}\s*;?\s*", re.IGNORECASE)
_WORDS = re.compile(r"\s*(DECLARE\s.*?\sCURSOR|FETCH|MOVE|CLOSE)\b", re.IGNORECASE | re.DOTALL)
# Rows that MOVE passes at a time
_ROWS_AT_ONCE = 1000
_ALL = sys.maxsize
_DUPLICATE_CURSOR, _INVALID_CURSOR, _NO_TRANSACTION = "42P03", "34000", "25P01"
_SYNTAX, _NOT_FORWARD, _UNSUPPORTED = "42601", "55000", "0A000"


class ServerCursor(PortalEntry):  # type: ignore[misc]
    """A cursor among the portals of a connection.

    Attributes:
        statement: Text of its DECLARE.
        is_held: Whether it outlives its transaction.
        position: Number of rows that have been read.
    """

    def __init__(
        self, portal: Any, columns: list[ResultColumn], statement: str, *, is_held: bool
    ) -> None:
        super().__init__(portal, columns, "FETCH")
        self.statement = statement
        self.is_held = is_held
        self.position = 0

    async def read(self, n_rows: int) -> tuple[list[Any], bool]:
        """Return the next rows, and whether more may follow."""
        rows, has_more = await self.portal.execute(n_rows)
        self.position += len(rows)
        return rows, has_more


def cursors_of(connection: Any) -> Iterator[tuple[str, ServerCursor]]:
    """Yield the open cursors of a connection with their names."""
    for name, entry in list(connection.portals.items()):
        if isinstance(entry, ServerCursor):
            yield name, entry


async def answer_cursors(context: MiddlewareContext) -> Any:
    """Answer DECLARE, FETCH, MOVE and CLOSE. None for others.

    Raises:
        PgError: The statement is invalid.
    """
    sql, connection = context.sql, context.connection
    if not _WORDS.match(sql):
        return None
    if (match := _DECLARE.fullmatch(sql)) is not None:
        if re.search(r"(?<!NO\s)\bSCROLL", " ".join(match["options"].upper().split())):
            raise PgError(_UNSUPPORTED, "cursors read forward only", H="use NO SCROLL")
        if not match["query"].strip(" ;\n"):
            raise PgError(_SYNTAX, "DECLARE CURSOR needs a query")
        # the query keeps its place, for the positions of errors
        query = " " * match.start("query") + match["query"]
        inner = await connection.session.prepare(query, context.param_oids)
        is_held = (match["hold"] or "").upper() == "WITH"
        return _Declare(connection, sql, _name(match), inner, is_held=is_held)
    if (match := _FETCH.fullmatch(sql)) is not None:
        return _Fetch(connection, sql, _name(match), _steps(match))
    if (match := _CLOSE.fullmatch(sql)) is not None:
        name = _name(match)
        return StaticStatement(sql, None, [], lambda: _close(connection, name))
    raise PgError(_SYNTAX, f"syntax error in {sql.split(None, 1)[0].upper()} of a cursor")


def _name(match: re.Match[str]) -> str:
    name = match["name"]
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _close(connection: Any, name: str) -> None:
    """Close a cursor, or `all` of them.

    Raises:
        PgError: The cursor does not exist.
    """
    if name == "all":
        for open_name, _ in cursors_of(connection):
            connection.close_portal(open_name)
        return
    _cursor(connection, name)
    connection.close_portal(name)


def _cursor(connection: Any, name: str) -> ServerCursor:
    cursor = connection.portals.get(name)
    if not isinstance(cursor, ServerCursor):
        raise PgError(_INVALID_CURSOR, f'cursor "{name}" does not exist')
    return cursor


@dataclass(frozen=True)
class _Steps:
    """Where FETCH goes.

    Attributes:
        skip: Number of rows to pass first.
        take: Number of rows to return after them.
        is_absolute: Whether `skip` counts from the first row.
    """

    skip: int
    take: int
    is_absolute: bool = False


def _steps(match: re.Match[str]) -> _Steps:
    """Return the steps of FETCH or MOVE.

    Raises:
        PgError: They go backward.
    """
    direction, count = (match["direction"] or "").upper(), match["count"]
    is_all = (count or "").upper() == "ALL"
    number = _ALL if is_all else 1 if count is None else int(count)
    is_one = direction in ("ABSOLUTE", "RELATIVE")
    if (is_one and (count is None or is_all)) or (
        count is not None and direction in ("NEXT", "PRIOR", "FIRST", "LAST")
    ):
        raise PgError(_SYNTAX, f"syntax error in {match['verb'].upper()} {direction}")
    if direction in ("PRIOR", "BACKWARD", "LAST") or number < 0:
        raise _backward()
    if direction == "FIRST" or is_one:
        return _Steps(max(number - 1, 0), min(number, 1), direction != "RELATIVE")
    return _Steps(0, number)


def _backward() -> PgError:
    return PgError(_NOT_FORWARD, "cursor can only scan forward")


class _Declare(pg_mimic.Statement):  # type: ignore[misc]
    """DECLARE of a cursor, which plans its query when it runs."""

    def __init__(self, connection: Any, sql: str, name: str, query: Any, *, is_held: bool) -> None:
        self.sql = sql
        self.connection = connection
        self.name = name
        self.query = query
        self.is_held = is_held
        self.param_oids = query.param_oids

    async def describe(self) -> None:
        """Return no columns."""

    def bind(self, params: list[Any]) -> _DeclarePortal:
        """Return the statement with the values of its query."""
        return _DeclarePortal(self, self.query.bind(params))


class _DeclarePortal(pg_mimic.Portal):  # type: ignore[misc]
    def __init__(self, declare: _Declare, portal: Any) -> None:
        self._declare = declare
        self._portal = portal

    async def execute(self, max_rows: int) -> tuple[list[Any], bool]:
        """Open the cursor.

        Raises:
            PgError: The name is taken, or the statement is outside a transaction.
        """
        declare = self._declare
        connection = declare.connection
        if connection.tx_status == b"I" and not declare.is_held:
            message = "DECLARE CURSOR can only be used in transaction blocks"
            raise PgError(_NO_TRANSACTION, message)
        if declare.name in connection.portals:
            raise PgError(_DUPLICATE_CURSOR, f'cursor "{declare.name}" already exists')
        columns = await declare.query.describe()
        if columns is None:
            raise PgError(_SYNTAX, "DECLARE CURSOR needs a query")
        connection.portals[declare.name] = ServerCursor(
            self._portal, columns, declare.sql, is_held=declare.is_held
        )
        return [], False


class _Fetch(pg_mimic.Statement):  # type: ignore[misc]
    """FETCH or MOVE of a cursor."""

    def __init__(self, connection: Any, sql: str, name: str, steps: _Steps) -> None:
        self.sql = sql
        self.param_oids: list[int | None] = []
        self._connection = connection
        self._name = name
        self._steps = steps

    async def describe(self) -> list[ResultColumn] | None:
        """Return the columns of the cursor. MOVE has none.

        Raises:
            PgError: The cursor does not exist.
        """
        columns: list[ResultColumn] = _cursor(self._connection, self._name).columns
        return columns if self.sql[0] in "fF" else None

    def bind(self, params: list[Any]) -> _FetchPortal:
        """Return the portal that reads the cursor's rows."""
        return _FetchPortal(_cursor(self._connection, self._name), self._steps)


class _FetchPortal(pg_mimic.Portal):  # type: ignore[misc]
    def __init__(self, cursor: ServerCursor, steps: _Steps) -> None:
        self._cursor = cursor
        self._steps = steps
        self._left: int | None = None

    async def execute(self, max_rows: int) -> tuple[list[Any], bool]:
        """Return the next rows, and whether more may follow.

        Raises:
            PgError: The cursor is past the rows, or its query fails.
        """
        if self._left is None:
            await self._skip()
            self._left = self._steps.take
        n_rows = min(self._left, max_rows if max_rows > 0 else _ALL)
        if n_rows == 0:
            return [], False
        rows, has_more = await self._cursor.read(n_rows)
        self._left -= len(rows)
        return rows, has_more and self._left > 0

    async def _skip(self) -> None:
        steps, position = self._steps, self._cursor.position
        left = steps.skip - position if steps.is_absolute else steps.skip
        if left < 0 or (steps.take == 0 and position > 0):
            raise _backward()
        while left > 0:
            rows, has_more = await self._cursor.read(min(left, _ROWS_AT_ONCE))
            left -= len(rows)
            if not has_more:
                return
