"""INSERT: targets, column mapping and ordering of writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.lowering.target import TargetColumn
from planner.sql.build import identifier, to_sql
from planner.sql.table_options import position_of_option
from runtime.connectors.registry import open_table, open_writable
from runtime.errors import AnalysisError, CatalogError, SqlwinError, nearest
from runtime.frames.arrow_rows import BatchRows
from runtime.shown_types import shown_type
from runtime.spec.figures import count_text
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import Column, TableColumn, TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import (
    MaterializedTable,
    Name,
    Registered,
    View,
    columns_of,
)
from sqlwin.catalog.options import options_refused, with_options
from sqlwin.statements.nodes import Insert

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

_view_numbers = count()


def insert_target(catalog: SessionCatalog, name: Name) -> TableSpec | None:
    """Return the session table to write to, or None for a table of Spark.

    Raises:
        CatalogError: The name belongs to a view or a registered DataFrame.
    """
    entry = catalog.entry(name)
    if isinstance(entry, View | Registered):
        kind = "a view" if isinstance(entry, View) else "a registered DataFrame"
        hint = "create a table with CREATE TABLE ... WITH ('connector' = ...)"
        if isinstance(entry, MaterializedTable):
            kind = "a materialized table"
            hint = f"add new files with ALTER MATERIALIZED TABLE {'.'.join(name)} REFRESH"
            if entry.definition.is_inserted:
                hint = "run the INSERT outside a statement set; for its plan, EXPLAIN the query"
        raise CatalogError(
            f"cannot insert into `{'.'.join(name)}`: it is {kind}",
            subjects=(".".join(name),),
            hint=hint,
        )
    return entry


def target_of(catalog: SessionCatalog, insert: Insert) -> TableSpec | None:
    """Return an INSERT's session table with the statement's options, or None for Spark's tables.

    Raises:
        CatalogError: The name is not a table, the table is only a source, or an option is invalid.
        AnalysisError: The table does not exist, its rows cannot be replaced, or a Spark table is
            given options.
    """
    table = insert_target(catalog, insert.name)
    if table is not None:
        open_writable(table, overwrite=insert.overwrite)
    elif len(insert.name) == 1:
        catalog.analyzer.require_table(insert.name[0])
    if insert.options is None:
        return table
    try:
        if table is None:
            raise options_refused(insert.name)
        return with_options(table, insert.options.pairs)
    except SqlwinError as error:
        error.position = position_of_option(error, insert.options, insert.text)
        error.sql = insert.text
        raise


@dataclass(frozen=True)
class AssignedColumn:
    """A column of a table and the value that an INSERT gives it.

    Attributes:
        column: Column of the table. Without a type it takes the type of the value.
        value: Number of the query's column, Spark SQL of a value for all rows, or None for NULL.
    """

    column: TableColumn
    value: int | str | None


def assign_columns(
    query: Sequence[Column],
    table: TableSpec,
    columns: Sequence[str] = (),
    static: Sequence[tuple[str, str]] = (),
) -> list[AssignedColumn]:
    """Return the columns of a table with their values.

    Args:
        query: Columns of the query, without a row kind.
        table: Target table. Without declared columns it takes the query's columns.
        columns: Columns named in INSERT INTO t (...). Others become NULL.
        static: Name and Spark SQL of columns with one value for all rows, from PARTITION (k = 'x').

    Raises:
        AnalysisError: The number of columns or a type does not fit; a column is unknown or set
            twice; the table is not partitioned by a column of PARTITION.
    """
    _check_static(table, columns, static)
    values: dict[str, int | str] = {name.lower(): sql for name, sql in static}
    declared = table.physical_columns
    if declared:
        targets = (
            _named(declared, columns, table.name)
            if columns
            else [column for column in declared if column.name.lower() not in values]
        )
    else:
        names = columns or [c.name for c in query if c.name.lower() not in values]
        targets = [TableColumn(name, None) for name in names]
        declared = (*targets, *(TableColumn(name, None) for name, _ in static))
    _check_count(len(query), [column.name for column in targets], table.name)
    for place, (target, column) in enumerate(zip(targets, query, strict=True)):
        if target.type is not None and not _fits(column.type, target.type):
            raise AnalysisError(
                f"column `{column.name}` of the query is {shown_type(column.type)}, which "
                "does not fit "
                f"`{target.name}` {shown_type(target.type)}",
                subjects=(column.name, target.name),
                hint=f"use CAST({column.name} AS {shown_type(target.type)})",
            )
        if target.name.lower() in values:
            raise AnalysisError(
                f"column `{target.name}` is listed twice",
                subjects=(target.name,),
                hint="remove it from the column list once",
            )
        values[target.name.lower()] = place
    return [AssignedColumn(column, values.get(column.name.lower())) for column in declared]


def target_columns(
    query: Sequence[Column],
    table: TableSpec,
    columns: Sequence[str],
    static: Sequence[tuple[str, str]],
    tree: Callable[[str], exp.Expr],
) -> list[TargetColumn]:
    """Return the columns of a table with their values for rows computed in this process.

    Arguments as in `assign_columns`; `tree` parses Spark SQL.

    Raises:
        AnalysisError: See `assign_columns`.
    """
    types = open_table(table).written_types()
    return [
        TargetColumn(
            assigned.column.name,
            types.get(assigned.column.name),
            tree(assigned.value) if isinstance(assigned.value, str) else assigned.value,
        )
        for assigned in assign_columns(query, table, columns, static)
    ]


def by_position(
    rows: DataFrame,
    table: TableSpec,
    columns: Sequence[str] = (),
    static: Sequence[tuple[str, str]] = (),
) -> DataFrame:
    """Map the query's columns by position to the table's names and types.

    Args:
        rows: Rows of the query. A row kind column stays in front.
        table: See `assign_columns`, like `columns` and `static`.
        columns: Columns named in INSERT INTO t (...).
        static: Columns of PARTITION (k = 'x').

    Raises:
        AnalysisError: See `assign_columns`.
    """
    kind = rows.columns[:1] if ROW_KIND in rows.columns else []
    query = columns_of(rows.schema)[len(kind) :]
    assigned = assign_columns(query, table, columns, static)
    is_in_order = [a.value for a in assigned] == [*range(len(query))]
    fields = rows.schema.fields[len(kind) :]
    if is_in_order and all(
        a.column.type in (None, field.dataType.simpleString())
        or str(a.column.type).lower() == field.dataType.simpleString()
        for a, field in zip(assigned, fields, strict=True)
    ):
        names = [*kind, *(a.column.name for a in assigned)]
        return rows if rows.columns == names else rows.toDF(*names)
    from pyspark.sql import functions as F

    def value_of(column: AssignedColumn) -> SparkColumn:
        value = column.value
        if isinstance(value, int):
            made = F.col(f"_{value}")
        else:
            made = F.lit(None) if value is None else F.expr(value)
        typed = made if column.column.type is None else made.cast(column.column.type)
        return typed.alias(column.column.name)

    unique = rows.toDF(*kind, *(f"_{i}" for i in range(len(query))))
    return unique.select(*map(F.col, kind), *map(value_of, assigned))


def _check_static(
    table: TableSpec, columns: Sequence[str], static: Sequence[tuple[str, str]]
) -> None:
    """Check the columns of PARTITION (k = 'x').

    Raises:
        AnalysisError: The table is not partitioned by such a column, or a column is set twice.
    """
    partitions = {name.lower() for name in table.partitioned_by}
    listed_columns = {name.lower() for name in columns}
    for name, _ in static:
        if name.lower() not in partitions:
            listed = ", ".join(table.partitioned_by)
            raise AnalysisError(
                f"`{table.name}` is not partitioned by `{name}`",
                subjects=(table.name, name),
                hint=f"PARTITIONED BY has {listed}" if listed else "remove PARTITION (...)",
            )
        if name.lower() in listed_columns:
            raise AnalysisError(
                f"`{name}` is both in PARTITION and in the column list",
                subjects=(name,),
                hint="remove it from one of them",
            )


def _check_count(n_columns: int, targets: Sequence[str], table: str) -> None:
    if len(targets) != n_columns:
        raise AnalysisError(
            f"the query returns {count_text(n_columns, 'columns')}, but `{table}` has "
            f"{len(targets)}: {', '.join(targets)}",
            subjects=(table,),
            hint="select one expression per column, in the table's order",
        )


def fit_rows(
    rows: BatchRows,
    table: TableSpec,
    columns: tuple[str, ...] = (),
    static: tuple[tuple[str, str], ...] = (),
) -> BatchRows:
    """Apply `by_position`. Rows that already fit remain in the workers."""
    declared = table.physical_columns
    if not declared and not (columns or static):
        return rows
    are_in_order = not (columns or static) and len(declared) == len(rows.schema.fields)
    if rows.are_arrow and are_in_order:
        named = rows.rename([column.name for column in declared])
        if open_table(table).takes(named.schema):
            return named
    return BatchRows.of(by_position(rows.dataframe, table, columns, static))


def insert_into_spark(
    spark: SparkSession,
    rows: DataFrame,
    name: Name,
    columns: tuple[str, ...],
    overwrite: bool,
    partition: str,
) -> None:
    """Write rows to a table of Spark's catalog with Spark's own INSERT."""
    view = f"sqlwin_insert_{next(_view_numbers)}"
    rows.createOrReplaceTempView(view)
    target = ".".join(to_sql(identifier(part)) for part in name)
    listed = f" ({', '.join(to_sql(identifier(c)) for c in columns)})" if columns else ""
    verb = "OVERWRITE TABLE" if overwrite else "INTO TABLE"
    try:
        spark.sql(f"INSERT {verb} {target}{partition}{listed} SELECT * FROM {view}")
    finally:
        spark.catalog.dropTempView(view)


def dependencies(
    targets: Sequence[tuple[Name, TableSpec | None]],
    queries: Sequence[exp.Query],
    catalog: SessionCatalog,
    resolved: Callable[[str], str],
) -> list[set[int]]:
    """Return the earlier INSERTs that each INSERT has to wait for when they run concurrently.

    Two INSERTs keep their order if they write to the same place, or if one writes a table that the
    other reads.

    Args:
        targets: Table name of each INSERT, with the table if it is a session table.
        queries: Query of each INSERT.
        catalog: Catalog to look up names in.
        resolved: Returns the absolute path of a table's path.

    Returns:
        For each INSERT, the numbers of the INSERTs that it waits for.
    """
    written = [_place(name, table, resolved) for name, table in targets]
    read = [_places_read(query, catalog, resolved) for query in queries]
    return [
        {
            i
            for i in range(j)
            if written[i] == written[j] or written[i] in read[j] or written[j] in read[i]
        }
        for j in range(len(targets))
    ]


def reads_earlier_target(
    targets: Sequence[tuple[Name, TableSpec | None]],
    queries: Sequence[exp.Query],
    catalog: SessionCatalog,
    resolved: Callable[[str], str],
) -> bool:
    """Return whether an INSERT reads a table that an earlier one writes; as `dependencies`."""
    written = [_place(name, table, resolved) for name, table in targets]
    read = [_places_read(query, catalog, resolved) for query in queries]
    return any(written[i] in read[j] for j in range(len(queries)) for i in range(j))


def _place(name: Name, table: TableSpec | None, resolved: Callable[[str], str]) -> str:
    """Return an identifier of the place where a table stores its rows."""
    if table is not None:
        options, connector = table.option_map, table.connector.lower()
        if connector == "print":
            return "print"  # concurrent tables would interleave their lines
        if "table-name" in options:
            return f"table {options['table-name']} of {options.get('url')}"
        for option in ("path", "topic"):
            if option in options:
                place = options[option]
                return f"{option} {resolved(place) if option == 'path' else place}"
    return f"table {'.'.join(name).lower()}"


def _places_read(
    query: exp.Query, catalog: SessionCatalog, resolved: Callable[[str], str]
) -> set[str]:
    """Return the places of all tables that a query reads, directly or through views."""
    places: set[str] = set()
    seen: set[Name] = set()
    pending = [query]
    while pending:
        for table in pending.pop().find_all(exp.Table):
            name = tuple(part.name.lower() for part in table.parts)
            if name in seen:
                continue
            seen.add(name)
            entry = catalog.entry(name)
            spec = entry if isinstance(entry, TableSpec) else None
            places.add(_place(name, spec, resolved))
            view = catalog.view(name)
            if view is not None:
                pending.append(view)
    return places


def _named(
    declared: Sequence[TableColumn], columns: Sequence[str], table: str
) -> list[TableColumn]:
    by_name = {c.name.lower(): c for c in declared}
    for name in columns:
        if name.lower() not in by_name:
            close = nearest(name, [c.name for c in declared])
            raise AnalysisError(
                f"`{table}` has no column `{name}` to insert into",
                subjects=(table, name),
                hint=f"did you mean `{close}`?" if close else None,
            )
    return [by_name[name.lower()] for name in columns]


def _fits(source: str, target: str) -> bool:
    """Return whether Spark's ANSI assignment rules allow a type, judged by type families."""
    left, right = _family(source), _family(target.lower())
    if left == right or "other" in (left, right):
        return True
    allowed = {("number", "text"), ("boolean", "text"), ("time", "text"), ("null", right)}
    return (left, right) in allowed


def _family(type_: str) -> str:
    name = type_.split("(")[0].split("<")[0].strip()
    if name in ("tinyint", "smallint", "int", "integer", "bigint", "float", "double", "decimal"):
        return "number"
    if name in ("string", "varchar", "char"):
        return "text"
    if name in ("date", "timestamp", "timestamp_ntz", "timestamp_ltz"):
        return "time"
    return {"boolean": "boolean", "binary": "binary", "void": "null"}.get(name, "other")
