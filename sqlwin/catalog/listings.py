"""SHOW and DESCRIBE results for session objects, as small text tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import translate as glob_pattern
from importlib.metadata import version
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.catalog import Schema
from planner.sql.build import to_sql
from planner.sql.render import quote_string
from runtime.names import quote_name
from runtime.redaction import Mask
from runtime.shown_types import shown_type
from runtime.spark.on_demand import is_started
from runtime.spec.table import TableColumn, TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import (
    Entry,
    MaterializedTable,
    Name,
    Registered,
    View,
    entry_name,
)
from sqlwin.catalog.materialized import create_statement
from sqlwin.catalog.spark.names import function_names, table_names, view_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def show_tables(
    catalog: SessionCatalog, spark: SparkSession, like: str | None, kind: str
) -> pa.Table:
    """Return the names of TABLES (including views) or VIEWS as a table."""
    title = "view name" if kind == "VIEWS" else "table name"
    return _one_column(title, names_of_tables(catalog, spark, kind), like)


def names_of_tables(catalog: SessionCatalog, spark: SparkSession, kind: str) -> list[str]:
    """Return the names of TABLES (including views) or VIEWS.

    Names in Spark's current database come last. Needs neither a Spark job nor the lock under which
    statements are planned.
    """
    views, tables = (
        [".".join(entry_name(entry)) for entry in entries]
        for entries in (
            catalog.entries.views(),
            [*catalog.entries.tables(), *catalog.entries.materialized()],
        )
    )
    is_views = kind == "VIEWS"
    lower_names = {name.lower() for name in views + tables}
    # a Spark that has not started has no tables
    listed = () if not is_started(spark) else (view_names if is_views else table_names)(spark)
    others = [
        name
        for name in listed
        if name.lower() not in lower_names and not catalog.is_changed_table(name)
    ]
    names = views if is_views else views + tables
    return sorted(names) + sorted(others)


def show_functions(spark: SparkSession, like: str | None) -> pa.Table:
    """Return the names of the window functions and of all Spark functions as a table."""
    return _one_column("function name", names_of_functions(spark), like)


def names_of_functions(spark: SparkSession) -> list[str]:
    """Return the names of the window functions and of all Spark functions.

    Before Spark starts, the built-in functions are the only ones.
    """
    from sqlwin.catalog.spark.function_names import NAMES, VERSION

    is_known = not is_started(spark) and version("pyspark").startswith(f"{VERSION}.")
    built_in = NAMES if is_known else frozenset(function_names(spark))
    return sorted(built_in | {"tumble", "hop", "cumulate", "session"})


def describe_table(catalog: SessionCatalog, name: Name, columns: Schema) -> pa.Table:
    """Return the columns of a session table or view: name, type, null, key, extras, watermark.

    Args:
        catalog: Tables of the session.
        name: Name of the table or view.
        columns: Its columns.
    """
    entry = catalog.entry(name)
    spec = entry if isinstance(entry, TableSpec) else None
    declared_columns = {column.name.lower(): column for column in (spec.columns if spec else ())}
    rows = []
    for field in columns:
        declared = declared_columns.get(field.name.lower())
        extras, watermark, key = "", "", ""
        if spec is not None and declared is not None:
            if declared.computed is not None:
                extras = f"AS {declared.written or declared.computed}"
            elif declared.metadata is not None:
                extras = _metadata(declared)
            lower_name = field.name.lower()
            if lower_name in map(str.lower, spec.primary_key):
                key = f"PRI({', '.join(spec.primary_key)})"
            if spec.watermark is not None and spec.watermark.column.lower() == lower_name:
                watermark = spec.watermark.written or spec.watermark.expression
        nullable = "TRUE" if (declared.nullable if declared else field.nullable) else "FALSE"
        type_ = shown_type(field.type)
        if declared is not None and declared.computed is None:
            type_ = declared.written or type_
        rows.append((field.name, type_, nullable, key, extras, watermark))
    names = ("name", "type", "null", "key", "extras", "watermark")
    texts = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({n: pa.array(c, pa.string()) for n, c in zip(names, texts, strict=True)})


def show_create_table(
    catalog: SessionCatalog, name: Name, mask: Mask, columns_in: Callable[[Name], Schema]
) -> pa.Table:
    """Return a statement that recreates a session table or view, without secrets.

    Files by path become a table with all detected columns and options.

    Args:
        catalog: Tables of the session.
        name: Name of the table or view.
        mask: Mask for secrets.
        columns_in: Returns the columns of a table.
    """
    entry = catalog.entry(name)
    assert entry is not None
    if isinstance(entry, TableSpec) and catalog.is_files(entry):
        entry = _to_declared(entry, columns_in)
    statement = mask.text(_create_statement(entry, mask))
    return pa.table({"create statement": pa.array([statement], pa.string())})


def mask_table(table: pa.Table, mask: Mask) -> pa.Table:
    """Mask secrets in a small text table."""
    columns = {
        name: pa.array(
            [value and mask.text(value) for value in table.column(name).to_pylist()], pa.string()
        )
        for name in table.column_names
    }
    return pa.table(columns)


def _to_declared(files: TableSpec, columns_in: Callable[[Name], Schema]) -> TableSpec:
    """Convert files by path to a named table with all of its columns."""
    path = files.option_map["path"]
    stem = re.sub(r"\W+", "_", path.rstrip("/").rpartition("/")[2].partition(".")[0]).strip("_")
    columns = files.columns
    if not columns:
        columns = tuple(TableColumn(c.name, c.type) for c in columns_in((files.name,)))
    return replace(files, name=stem or "files", columns=columns)


def _create_statement(entry: Entry, mask: Mask) -> str:
    name = quote_name(*entry_name(entry))
    if isinstance(entry, Registered):
        return f"-- {name} is a DataFrame registered in Python"
    if isinstance(entry, MaterializedTable):
        return create_statement(entry)
    if isinstance(entry, View):
        columns = f" ({', '.join(map(quote_name, entry.columns))})" if entry.columns else ""
        comment = f" COMMENT {quote_string(entry.comment)}" if entry.comment else ""
        return f"CREATE VIEW {name}{columns}{comment} AS {entry.text or to_sql(entry.query)}"
    lines = []
    for column in entry.columns:
        line = f"  {quote_name(column.name)} "
        if column.computed is not None:
            line += f"AS {column.written or column.computed}"
        else:
            line += column.written or shown_type(column.type or "")
            line += "" if column.nullable else " NOT NULL"
            line += f" {_metadata(column)}" if column.metadata else ""
        line += f" COMMENT {quote_string(column.comment)}" if column.comment else ""
        lines.append(line)
    if entry.watermark is not None:
        mark = entry.watermark
        expression = mark.written or mark.expression
        lines.append(f"  WATERMARK FOR {quote_name(mark.column)} AS {expression}")
    if entry.primary_key:
        keys = ", ".join(map(quote_name, entry.primary_key))
        lines.append(f"  PRIMARY KEY ({keys}) NOT ENFORCED")
    temporary = "TEMPORARY " if entry.temporary else ""
    body = " (\n" + ",\n".join(lines) + "\n)" if lines else ""
    comment = f"\nCOMMENT {quote_string(entry.comment)}" if entry.comment else ""
    parts = ", ".join(map(quote_name, entry.partitioned_by))
    partitioned = f"\nPARTITIONED BY ({parts})" if parts else ""
    options = [("connector", entry.connector)]
    options += [(key, mask.value(key, value)) for key, value in entry.options]
    with_ = ",\n".join(f"  {quote_string(k)} = {quote_string(v)}" for k, v in options)
    return f"CREATE {temporary}TABLE {name}{body}{comment}{partitioned}\nWITH (\n{with_}\n)"


def _metadata(column: TableColumn) -> str:
    virtual = " VIRTUAL" if column.is_virtual else ""
    return f"METADATA FROM {quote_string(column.metadata or '')}{virtual}"


def _one_column(title: str, names: Iterable[str], like: str | None) -> pa.Table:
    """Return a table of the names that match a SQL LIKE pattern, or one with Spark's *.

    Case is ignored.
    """
    pattern = glob_pattern(("*" if like is None else like).replace("%", "*").replace("_", "?"))
    matches = [name for name in names if re.fullmatch(pattern, name, re.IGNORECASE)]
    return pa.table({title: pa.array(matches, pa.string())})
