"""PostgreSQL's catalogs for one client."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence

from sqlwin.server.catalog.errors import CatalogQueryError
from sqlwin.server.catalog.parts import CatalogPart
from sqlwin.server.catalog.relations import (
    FLOATS,
    INTEGERS,
    VECTORS,
    catalog_relations,
    types,
)
from sqlwin.server.catalog.result_columns import OutputColumn
from sqlwin.server.catalog.rewrite import CatalogQuery
from sqlwin.server.catalog.sqlite_functions import namespace_name, register
from sqlwin.server.catalog.tables import (
    ClientFacts,
    ServedObjects,
    catalog_rows,
    changing_rows,
    insert_statements,
    sqlite_name,
)
from sqlwin.server.catalog.type_names import format_type


class CatalogDatabase:
    """The catalogs of a session as one client sees them. Belongs to the thread that creates it.

    Args:
        objects: Tables, views and functions of the session.
        client: The client's facts.
    """

    def __init__(self, objects: ServedObjects, client: ClientFacts) -> None:
        self.objects = objects
        self._client = client
        self._sqlite = sqlite3.connect(":memory:")
        for (schema, name), relation in catalog_relations().items():
            columns = ", ".join(
                f'"{column}" {_affinity(type_)}' for column, type_ in relation.columns.items()
            )
            self._sqlite.execute(f"CREATE TABLE {sqlite_name(schema, name)} ({columns})")
        for statement, rows in insert_statements(catalog_rows(objects, client)):
            self._sqlite.executemany(statement, rows)
        self._names = register(self._sqlite, client)

    def run(self, query: CatalogQuery, values: Sequence[object]) -> list[tuple[object, ...]]:
        """Return the rows of a query.

        Args:
            query: The query.
            values: Values of its parameters. Lists are arrays.

        Raises:
            CatalogQueryError: SQLite cannot run the query.
        """
        parameters = {
            f"p{number}": json.dumps(value) if isinstance(value, list) else value
            for number, value in enumerate(values, 1)
        }
        self._names.error = None
        if CatalogPart.CLIENT in query.parts:
            self._show_client()
        try:
            rows = self._sqlite.execute(query.sql, parameters).fetchall()
        except (sqlite3.Error, OverflowError) as error:
            raise _query_error(self._names.error or error) from error
        if not rows:
            return []
        if len(rows[0]) != len(query.columns):
            raise CatalogQueryError("0A000", "the columns of the catalog query are unknown")
        kinds = [column.type for column in query.columns]
        return [
            tuple(self._value(value, kind) for value, kind in zip(row, kinds, strict=True))
            for row in rows
        ]

    def _show_client(self) -> None:
        """Replace the rows of the catalogs that the client changes."""
        rows = changing_rows(self._client)
        for schema, name in rows:
            self._sqlite.execute(f"DELETE FROM {sqlite_name(schema, name)}")
        for statement, changed in insert_statements(rows):
            self._sqlite.executemany(statement, changed)

    def close(self) -> None:
        """Free the tables."""
        self._sqlite.close()

    def _value(self, value: object, type_: str) -> object:
        """Return a value of SQLite as pg-mimic encodes it for a type."""
        if value is None:
            return None
        if type_ == "bool":
            return bool(value)
        if type_ == "regclass":
            return self._names.class_name(value)
        if type_ == "regtype":
            return format_type(value if isinstance(value, int) else None, None)
        if type_ == "regnamespace":
            return namespace_name(value)
        if type_ in VECTORS:
            return " ".join(map(str, json.loads(str(value))))
        if type_ in types() and types()[type_].is_array and isinstance(value, str):
            return json.loads(value) if value.startswith("[") else value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if type_ in INTEGERS or type_ in FLOATS:
            return value
        return str(value)


def _affinity(type_: str) -> str:
    if type_ in INTEGERS or type_ == "bool":
        return "INTEGER"
    return "REAL" if type_ in FLOATS else "TEXT"


def _query_error(error: Exception) -> CatalogQueryError:
    """Return an error of SQLite or of a function in PostgreSQL's words."""
    if isinstance(error, CatalogQueryError):
        return error
    if isinstance(error, re.error):
        return CatalogQueryError("2201B", f"invalid regular expression: {error}")
    if not isinstance(error, sqlite3.Error):
        return CatalogQueryError("22023", "a function of the catalog query has an invalid argument")
    message = str(error)
    for start, sqlstate, text in (
        ("no such column: ", "42703", "column {} does not exist"),
        ("no such function: ", "42883", "function {} does not exist in catalog queries"),
        ("no such table: ", "42P01", 'relation "{}" does not exist'),
    ):
        if message.startswith(start):
            return CatalogQueryError(sqlstate, text.format(message.removeprefix(start).lower()))
    return CatalogQueryError("0A000", f"cannot answer the catalog query: {message}")


def type_oid(column: OutputColumn) -> int:
    """Return the OID of a column's type. Types that clients do not know are text."""
    type_ = types().get(column.type)
    return types()["text"].oid if type_ is None or column.type in ("any", "unknown") else type_.oid
