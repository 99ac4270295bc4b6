"""Adapter for Harlequin, the SQL editor for terminals: `harlequin -a sqlwin tables.sql`.

An entry point of the package registers it, so only Harlequin imports this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from harlequin import HarlequinAdapter, HarlequinConnection, HarlequinCursor
from harlequin.catalog import Catalog, CatalogItem
from harlequin.exception import HarlequinConnectionError, HarlequinQueryError

import sqlwin.dbapi
from runtime.names import quote_name

# Marks of types in the head of a column
_MARKS = {
    "NUMBER": "#",
    "STRING": "s",
    "DATETIME": "t",
    "BINARY": "b",
}
# Options that reach `connect`
_OPTIONS = ("spark", "master", "remote")
_GROUPS = (sqlwin.dbapi.NUMBER, sqlwin.dbapi.STRING, sqlwin.dbapi.DATETIME, sqlwin.dbapi.BINARY)


class SqlwinCursor(HarlequinCursor):  # type: ignore[misc]
    """Rows of a query."""

    def __init__(self, cursor: sqlwin.dbapi.Cursor) -> None:
        self._cursor = cursor
        self._limit: int | None = None

    def columns(self) -> list[tuple[str, str]]:
        """Return the names of the columns and marks of their types."""
        return [(column.name, _mark(column.type_code)) for column in self._cursor.description or ()]

    def set_limit(self, limit: int) -> SqlwinCursor:
        """Fetch at most `limit` rows."""
        self._limit = limit
        return self

    def fetchall(self) -> pa.Table | list[tuple[object, ...]] | None:
        """Return the rows.

        Raises:
            HarlequinQueryError: Computing the rows failed.
        """
        try:
            if self._limit is None:
                return self._cursor.fetch_arrow_table()
            return self._cursor.fetchmany(self._limit)
        except sqlwin.dbapi.Error as error:
            raise _query_error(error) from error


class SqlwinConnection(HarlequinConnection):  # type: ignore[misc]
    """A session."""

    def __init__(self, connection: sqlwin.dbapi.Connection) -> None:
        self.init_message = ""
        self._connection = connection

    def execute(self, query: str) -> SqlwinCursor | None:
        """Run a statement, and return its rows, None for a statement without rows.

        Raises:
            HarlequinQueryError: The statement is invalid or fails.
        """
        try:
            cursor = self._connection.execute(query)
        except sqlwin.dbapi.Error as error:
            raise _query_error(error) from error
        return None if cursor.description is None else SqlwinCursor(cursor)

    def get_catalog(self) -> Catalog:
        """Return tables and views with their columns."""
        views = {str(name) for (name,) in self._connection.execute("SHOW VIEWS")}
        names = [str(name) for (name,) in self._connection.execute("SHOW TABLES")]
        return Catalog(items=[self._item(name, name in views) for name in names])

    def _item(self, name: str, is_view: bool) -> CatalogItem:
        quoted = quote_name(*name.split("."))
        columns = [
            CatalogItem(
                qualified_identifier=f"{quoted}.{quote_name(str(column))}",
                query_name=quote_name(str(column)),
                label=str(column),
                type_label=str(type_).lower(),
            )
            for column, type_, *_ in self._connection.execute(f"DESCRIBE {quoted}")
        ]
        return CatalogItem(
            qualified_identifier=quoted,
            query_name=quoted,
            label=name,
            type_label="v" if is_view else "t",
            children=columns,
        )

    def close(self) -> None:
        """Close the session."""
        self._connection.close()


class SqlwinAdapter(HarlequinAdapter):  # type: ignore[misc]
    """Harlequin's adapter, which opens a session.

    The argument is a file with CREATE TABLE statements.

    Args:
        conn_str: The file, if any.
        options: Arguments of `sqlwin.dbapi.connect`, and others of Harlequin, which are ignored.
    """

    def __init__(self, conn_str: Sequence[str], **options: Any) -> None:
        self._scripts = tuple(conn_str)
        self._options = {key: options[key] for key in _OPTIONS if key in options}

    def connect(self) -> SqlwinConnection:
        """Open the session.

        Raises:
            HarlequinConnectionError: There are several files, or one cannot be run.
        """
        if len(self._scripts) > 1:
            raise HarlequinConnectionError("sqlwin takes at most one file of SQL")
        try:
            connection = sqlwin.dbapi.connect(*self._scripts, **self._options)
        except sqlwin.dbapi.Error as error:
            raise HarlequinConnectionError(str(error), title="sqlwin cannot connect") from error
        return SqlwinConnection(connection)


def _mark(type_code: str) -> str:
    """Return a mark of one to three letters for a type."""
    for group in _GROUPS:
        if type_code == group:
            return _MARKS[repr(group)]
    return "{}"


def _query_error(error: Exception) -> HarlequinQueryError:
    return HarlequinQueryError(str(error), title="sqlwin cannot run the query")
