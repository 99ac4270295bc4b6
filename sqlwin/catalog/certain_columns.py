"""Columns of tables of files for which Spark certainly finds the same columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from planner.catalog import Schema
from planner.scalars.inference import ColumnScope, require_no_aggregate
from runtime.connectors.registry import open_table
from runtime.files import is_local_path
from runtime.options.checks import option_values
from runtime.options.formats import format_of
from runtime.refusal import Refusal, Refused, tried
from runtime.scan.files import list_files
from runtime.scan.metadata import read_footer
from runtime.scan.paths import expand
from runtime.spec.materialized import is_inserted_rows
from runtime.spec.scan import ScanFile
from runtime.spec.table import Column, TableSpec

# With more files, Spark samples the footers, and all of them would have to be compared
_MAX_FILES = 256
_FROM_ARROW = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("ms"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("ms", "UTC"): "timestamp",
}
# Schema that Spark stores in a file's metadata and uses when reading it
_SPARKS_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_JSON_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def certain_columns(
    spec: TableSpec, resolve: Callable[[str], str], tree: Callable[[str], exp.Expr]
) -> Schema | None:
    """Return the columns with which Spark reads a table of local files. None: only Spark can tell.

    Args:
        spec: Table, with or without declared columns.
        resolve: Function that returns the absolute form of a path.
        tree: Function that returns the tree of an expression of the table.
    """
    if not any(column.computed for column in spec.columns):
        return _physical_columns(spec, resolve)
    physical = tuple(column for column in spec.columns if column.computed is None)
    below = _physical_columns(replace(spec, columns=physical), resolve) if physical else None
    return None if below is None else _with_computed(spec, below, tree)


def _with_computed(
    spec: TableSpec, below: Schema, tree: Callable[[str], exp.Expr]
) -> Schema | None:
    """Return the declared columns in order. None: only Spark can tell the type of one.

    Args:
        spec: Table.
        below: Columns that the files have.
        tree: Function that returns the tree of an expression.
    """
    columns = {column.name: column for column in below}
    scope = ColumnScope(((None, below),))
    for column in spec.columns:
        if column.name.lower() in spec.proctime_columns:
            columns[column.name] = Column(column.name, "timestamp", nullable=False)
        elif column.computed is not None:
            expression = tree(column.computed)
            try:
                require_no_aggregate(expression)
                value = scope.value(expression)
            except Refused:
                return None
            columns[column.name] = Column(column.name, value.type, value.nullable)
    return tuple(columns[column.name] for column in spec.columns)


def _physical_columns(spec: TableSpec, resolve: Callable[[str], str]) -> Schema | None:
    """Return the columns of a table without computed ones. See `certain_columns`."""
    if any(column.metadata for column in spec.columns):
        return None
    types = [column.common_type for column in spec.columns]
    if None in types:
        return None
    declared = tuple(Column(c.name, t) for c, t in zip(spec.columns, types, strict=True) if t)
    if is_inserted_rows(spec.name) or open_table(spec).is_read_in_process:
        return declared
    if spec.connector.lower() != "filesystem":
        return None
    values = option_values(spec)
    root = resolve(values.get("path", ""))
    if not is_local_path(root):
        return None
    listing = tried(list_files, expand(root))
    if isinstance(listing, Refusal):
        return None
    partitions = {name.lower() for name in listing.partition_columns}
    if partitions != {name.lower() for name in spec.partitioned_by} or (
        partitions and not declared
    ):
        # Spark infers the types of columns in directory names
        return None
    file_format = format_of(values)
    if file_format in ("csv", "json", "text") and declared:
        return declared
    if file_format != "parquet" or len(listing.files) > _MAX_FILES:
        return None
    schemas = {_columns_of_file(file, is_declared=bool(declared)) for file, _ in listing.files}
    if len(schemas) != 1:
        return None
    (schema,) = schemas
    if schema is None or len({column.name.lower() for column in schema}) != len(schema):
        return None
    in_files = {column for column in declared if column.name.lower() not in partitions}
    if not in_files <= set(schema) or partitions & {column.name.lower() for column in schema}:
        return None
    return declared or schema


def _columns_of_file(path: str, *, is_declared: bool) -> Schema | None:
    """Return the columns of a Parquet file. None: only Spark can tell.

    Unless they are declared, Spark uses the schema that it stored in the file.
    """
    footer = tried(read_footer, ScanFile(path))
    if isinstance(footer, Refusal):
        return None
    try:
        schema = footer.schema.to_arrow_schema()
    except pa.ArrowException:
        return None
    types = [_type_of_arrow(field.type) for field in schema]
    if None in types:
        return None
    columns = tuple(Column(f.name, t) for f, t in zip(schema, types, strict=True) if t)
    sparks = (footer.metadata or {}).get(_SPARKS_SCHEMA)
    if sparks is not None and not is_declared and _columns_of_json(sparks) != columns:
        return None
    return columns


def _columns_of_json(text: bytes) -> Schema | None:
    """Return the columns of a schema stored by Spark, or None if it has unsupported parts."""
    try:
        fields: list[dict[str, Any]] = json.loads(text)["fields"]
        if any(field["metadata"] or not isinstance(field["type"], str) for field in fields):
            return None
        return tuple(Column(f["name"], _JSON_TYPES.get(f["type"], f["type"])) for f in fields)
    except (KeyError, TypeError, ValueError):
        return None


def _type_of_arrow(type_: pa.DataType) -> str | None:
    if pa.types.is_decimal128(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _FROM_ARROW.get(type_)
