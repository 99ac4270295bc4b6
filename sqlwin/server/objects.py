"""Tables, views and functions of a session, as PostgreSQL's catalogs describe them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from runtime.errors import SqlwinError
from runtime.spec.table import Column
from sqlwin.control import SessionControl
from sqlwin.dbapi.rows import rows_of
from sqlwin.server.catalog.tables import ServedColumn, ServedObjects, ServedTable
from sqlwin.server.translation import oid_of
from sqlwin.session import Session

_FUNCTION = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)


def served_objects(session: Session, control: SessionControl) -> ServedObjects:
    """Return the tables, views and functions of a session."""
    tables = [_table(session, control, str(row[0])) for row in _rows(session, "SHOW TABLES")]
    functions = [str(row[0]) for row in _rows(session, "SHOW FUNCTIONS")]
    names = sorted({name.lower() for name in functions if _FUNCTION.fullmatch(name)})
    return ServedObjects(tuple(tables), tuple(names))


def _table(session: Session, control: SessionControl, name: str) -> ServedTable:
    spec = control.table_spec(name)
    view = control.view_query(name)
    if spec is not None and spec.columns and all(column.type for column in spec.columns):
        # the schema may start Spark
        columns = [
            _column(column.name, str(column.type), column.nullable, column.comment or "")
            for column in spec.columns
        ]
    else:
        columns = [_column(c.name, c.type, c.nullable) for c in _schema(control, name)]
    key = () if spec is None else spec.primary_key
    return ServedTable(name, tuple(columns), view, key)


def _column(name: str, sql_type: str, is_nullable: bool, comment: str = "") -> ServedColumn:
    modifier = -1
    decimal = re.match(r"decimal\((\d+),\s*(\d+)\)", sql_type, re.IGNORECASE)
    if decimal is not None:
        modifier = (int(decimal[1]) << 16) + int(decimal[2]) + 4
    return ServedColumn(name, oid_of(sql_type), modifier, is_nullable, comment)


def _schema(control: SessionControl, name: str) -> Sequence[Column]:
    """Return the columns of a table or view, none if it cannot be read."""
    try:
        return control.schema_of(tuple(name.split(".")))
    except SqlwinError:
        return ()


def _rows(session: Session, statement: str) -> list[tuple[object, ...]]:
    """Return the rows of SHOW, none if it fails."""
    try:
        (result,) = session.execute(statement)
    except SqlwinError:
        return []
    rows = rows_of(result)
    return [] if rows is None else rows.take(sys.maxsize)
