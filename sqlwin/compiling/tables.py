"""Tables whose columns are declared, for planning without their rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.compute.arrow.types import arrow_type
from runtime.errors import SqlwinError
from runtime.spec.table import TableColumn
from sqlwin.statements.nodes import CreateTable, SparkStatement, Statement
from sqlwin.statements.parse import parse_statement

_CREATE = re.compile(r"\s*CREATE\s+(OR\s+REPLACE\s+)?TABLE\b", re.IGNORECASE)
_NO_ROWS = "WITH ('connector' = 'filesystem', 'path' = 'none', 'format' = 'parquet')"


def as_declared(statement: Statement, directory: Path) -> Statement:
    """Return a CREATE TABLE with columns as one over an empty file, any other statement unchanged.

    A CREATE TABLE of Spark, without WITH, declares columns, too.

    Args:
        statement: Statement of a script.
        directory: Directory for the file.
    """
    table = statement
    if isinstance(statement, SparkStatement) and _CREATE.match(statement.text):
        try:
            table = parse_statement(f"{statement.text.rstrip()} {_NO_ROWS}")
        except SqlwinError:
            return statement  # such as CREATE TABLE ... USING
    if not isinstance(table, CreateTable) or table.as_query is not None or not table.columns:
        return statement
    schema = _stored_schema(table.columns)
    if schema is None:
        return statement
    path = directory / f"{uuid4().hex}.parquet"
    pq.write_table(schema.empty_table(), path)
    options = (("connector", "filesystem"), ("path", str(path)), ("format", "parquet"))
    return replace(table, options=options, partitioned_by=())


def _stored_schema(columns: Iterable[TableColumn]) -> pa.Schema | None:
    """Return the physical columns, or None if one has a type without rows in Arrow."""
    fields = []
    for column in columns:
        if column.type is None or column.computed is not None or column.metadata is not None:
            continue
        try:
            type_ = column.type.lower().replace(" ", "")
            fields.append(pa.field(column.name, arrow_type(type_)))
        except KeyError:
            return None
    return pa.schema(fields)
