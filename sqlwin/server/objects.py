"""Tables, views and functions of a session, as PostgreSQL's catalogs describe them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from runtime.errors import SqlwinError
from runtime.spec.table import Column, TableColumn, TableSpec
from sqlwin.control import SessionControl
from sqlwin.server.catalog.parts import CatalogPart
from sqlwin.server.catalog.tables import ServedColumn, ServedObjects, ServedTable
from sqlwin.server.translation import oid_of

T = TypeVar("T")

_FUNCTION = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
# Seconds for which clients see the same objects in catalogs, unless a client changes them
_SECONDS = 1.0


class SessionObjects:
    """Tables, views and functions of a session, as they were at most a second ago.

    Clients ask for catalogs with many queries at once. The answers need no Spark job, and do not
    wait while another client's statement is planned, which may take a job: meanwhile a table has
    the columns that it had last.
    """

    def __init__(self, control: SessionControl) -> None:
        self._control = control
        # the time of each part, and the part
        self._recent: dict[CatalogPart, tuple[float, Any]] = {}
        # by table: its definition, and its columns
        self._last_columns: dict[str, tuple[object, tuple[ServedColumn, ...]]] = {}

    def of(self, parts: frozenset[CatalogPart]) -> ServedObjects:
        """Return some parts of the objects."""
        if CatalogPart.FUNCTIONS in parts:
            functions = self._read(CatalogPart.FUNCTIONS, self._functions)
        else:
            functions = None
        if CatalogPart.TABLES not in parts:
            return ServedObjects(functions=functions)
        tables = self._read(CatalogPart.TABLES, self._tables)
        if CatalogPart.COLUMNS not in parts:
            return ServedObjects(tables, None, functions)
        tables, columns = self._read(CatalogPart.COLUMNS, lambda: self._columns(tables))
        return ServedObjects(tables, columns, functions)

    def forget(self) -> None:
        """Read the objects again when a client asks for them. Called after a change."""
        self._recent.clear()

    def _read(self, part: CatalogPart, read: Callable[[], T]) -> T:
        recent = self._recent.get(part)
        if recent is not None and time.monotonic() - recent[0] <= _SECONDS:
            value: T = recent[1]
            return value
        value = read()
        self._recent[part] = time.monotonic(), value
        return value

    def _functions(self) -> tuple[str, ...]:
        names = self._control.names_of_functions()
        return tuple(sorted({name.lower() for name in names if _FUNCTION.fullmatch(name)}))

    def _tables(self) -> tuple[ServedTable, ...]:
        tables = []
        for name in self._control.names_of_tables():
            entry = self._control.entry((name,))
            key = entry.primary_key if isinstance(entry, TableSpec) else ()
            tables.append(ServedTable(name, self._control.view_query(name), key))
        return tuple(tables)

    def _columns(
        self, tables: tuple[ServedTable, ...]
    ) -> tuple[tuple[ServedTable, ...], tuple[tuple[ServedColumn, ...], ...]]:
        """Return tables and the columns of each one."""
        return tables, tuple(self._columns_of(table.name) for table in tables)

    def _columns_of(self, name: str) -> tuple[ServedColumn, ...]:
        entry = self._control.entry(tuple(name.split(".")))
        if declared := declared_columns(entry):
            # detecting the columns may start Spark
            return tuple(
                _column(column.name, str(column.type), column.nullable, column.comment or "")
                for column in declared
            )
        last = self._last_columns.get(name)
        is_known = last is not None and last[0] is entry
        schema = self._schema(name, waits=not is_known)
        if schema is None:
            assert last is not None, "it waits for columns that are not known"
            return last[1]
        columns = tuple(_column(c.name, c.type, c.nullable) for c in schema)
        self._last_columns[name] = entry, columns
        return columns

    def _schema(self, name: str, *, waits: bool) -> Sequence[Column] | None:
        """Return the columns of a table or view, () if it cannot be read. See `schema_of`."""
        try:
            return self._control.schema_of(tuple(name.split(".")), waits=waits)
        except SqlwinError:
            return ()


def declared_columns(entry: object) -> Sequence[TableColumn]:
    """Return the columns of a definition in the catalog, none if a type is not declared."""
    columns = entry.columns if isinstance(entry, TableSpec) else ()
    return columns if all(column.type for column in columns) else ()


def _column(name: str, sql_type: str, is_nullable: bool, comment: str = "") -> ServedColumn:
    modifier = -1
    decimal = re.match(r"decimal\((\d+),\s*(\d+)\)", sql_type, re.IGNORECASE)
    if decimal is not None:
        modifier = (int(decimal[1]) << 16) + int(decimal[2]) + 4
    return ServedColumn(name, oid_of(sql_type), modifier, is_nullable, comment)
