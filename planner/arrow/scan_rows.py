"""Filters and projections as expressions over the columns of files or windows.

With them, windows that are fetched or written to files do not pass through the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.arrow.expressions import to_arrow_expression
from planner.catalog import Catalog, Schema
from planner.nodes.aggregate_plans import BOUNDS, TIME
from planner.nodes.logical import Filter, Node, Project, SqlQuery, TableScan
from planner.nodes.physical import GlobalWindowAggregate
from planner.nodes.sql_words import sql_words
from planner.scalars.literals import time_zone
from planner.sql.build import (
    conjuncts,
    is_flat_type,
    is_whole_star,
    select_all_from,
    to_sql,
)
from planner.sql.flink_functions import current_watermarks, is_current_time
from planner.sql.parts import bare_table, name_parts, only_source, without_qualifier
from runtime.plan.exchange import WindowProjection
from runtime.refusal import Refusal, Refused, refuse, tried
from runtime.shown_types import shown_type
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression, columns_of
from runtime.spec.table import Column

# Expression that computes a column, or why the scan cannot, which matters if the column is read
Made = Expression | Refusal

# Columns of given rows that calls of the current time and of CURRENT_WATERMARK return
PROCESSING_TIME, CURRENT_WATERMARK = "$processing_time", "$current_watermark"

_TOO_MUCH = "the query below it does more than filter and project"

# Function that returns the source rows of a node or of a table in a query, or None
Source = Callable[[Node | exp.Table], "RowsOfScan | None"]


@dataclass(frozen=True)
class RowsOfScan:
    """Rows of a node whose columns are expressions over the columns of the files.

    Attributes:
        table: The table that is read.
        of_table: Expressions for the table's columns, by lower-case name.
        schema: Columns of the node.
        columns: Expressions for the node's columns, by lower-case name.
        filters: Conditions that are all required of a row.
        conditions: The conditions as written in the query, for EXPLAIN.
        zone: The session's time zone, for timestamps in text.
    """

    table: tuple[str, ...]
    of_table: Mapping[str, Made]
    schema: Schema
    columns: Mapping[str, Made]
    filters: tuple[Expression, ...]
    conditions: tuple[exp.Expr, ...]
    zone: str

    def expression(self, expr: exp.Expr, *, has_tables: bool = True) -> Expression:
        """Translate an expression over the node's columns.

        Args:
            expr: The SQL expression.
            has_tables: Whether the name before a point may be a table.

        Raises:
            Refused: The scan cannot evaluate it. The message says why.
        """
        expr, moments = self._with_moments(expr)
        schema = (*self.schema, *moments)
        expression = to_arrow_expression(expr, schema, self.zone, has_tables=has_tables)
        return self.over_files(expression)

    def _with_moments(self, expr: exp.Expr) -> tuple[exp.Expr, Schema]:
        """Return an expression that reads the columns of the micro-batch, and these columns."""
        made = [self.of_table.get(name) for name in (PROCESSING_TIME, CURRENT_WATERMARK)]
        moments = {
            part.name: Column(part.name, part.type) for part in made if isinstance(part, ColumnRef)
        }
        if not moments:
            return expr, ()
        # a root has no parent to replace it in
        root = exp.Paren(this=expr.copy())
        if PROCESSING_TIME in moments:
            for call in list(root.find_all(exp.Anonymous, exp.CurrentTimestamp)):
                if is_current_time(call):
                    call.replace(exp.column(PROCESSING_TIME))
        if CURRENT_WATERMARK in moments:
            for case, _ in current_watermarks(root):
                case.replace(exp.column(CURRENT_WATERMARK))
        return root.this, tuple(moments.values())

    def over_files(self, expression: Expression) -> Expression:
        """Rewrite an expression over the node's columns as one over the files' columns.

        Raises:
            Refused: The expression reads a column that the scan cannot compute.
        """
        if isinstance(expression, Call):
            args = tuple(self.over_files(arg) for arg in expression.args)
            return expression if args == expression.args else replace(expression, args=args)
        if not isinstance(expression, ColumnRef):
            return expression
        name, _, field = expression.name.partition(".")
        column = required(self.columns.get(name.lower()) or self.of_table[name])
        if field:
            if not isinstance(column, ColumnRef):
                refuse(f"{expression.name} is a field of a column that the files do not have")
            return ColumnRef(f"{column.name}.{field}", expression.type)
        if column.type != expression.type:
            refuse(f"the scan reads {expression.name} as {shown_type(column.type)}")
        return column


def rows_of_scan(node: Node, catalog: Catalog, zone: str) -> RowsOfScan:
    """Return the rows of a node that only filters and projects a table.

    Args:
        node: The node.
        catalog: Catalog, for computed columns.
        zone: The session's time zone.

    Raises:
        Refused: Another kind of node is in between, or the scan cannot evaluate a
            filter.
    """

    def source(relation: Node | exp.Table) -> RowsOfScan | None:
        if isinstance(relation, TableScan):
            return table_rows(tuple(relation.table.split(".")), relation.schema, catalog, zone)
        if isinstance(relation, exp.Table):
            schema = catalog.analyze(select_all_from(bare_table(relation)), {})
            return table_rows(name_parts(relation), schema, catalog, zone)
        return None

    return rows_above(node, source)


def rows_above(node: Node, source: Source) -> RowsOfScan:
    """Return the rows of a node that only filters and projects a source.

    Args:
        node: The node.
        source: Function that returns the rows of a source.

    Raises:
        Refused: Another kind of node is in between, or Arrow cannot evaluate a filter.
    """
    rows = source(node)
    if rows is not None:
        return rows
    match node:
        case Filter():
            return filter_rows(rows_above(node.input, source), node.conjuncts)
        case Project():
            below = rows_above(node.input, source)
            made = {item.name.lower(): make_column(item.expr, below) for item in node.items}
            return replace(below, schema=node.schema, columns=made)
        case SqlQuery():
            return _query_rows(node, source)
    refuse(f"the scan does not compute {sql_words(node)}")


def table_rows(name: tuple[str, ...], schema: Schema, catalog: Catalog, zone: str) -> RowsOfScan:
    """Return the rows of a table, with its computed columns."""
    physical: dict[str, Made] = {
        column.name.lower(): ColumnRef(column.name, column.type) for column in schema
    }
    rows = RowsOfScan(name, physical, schema, physical, (), (), zone)
    computed = catalog.computed_columns(name)
    of_table = physical | {key: make_column(expr, rows, False) for key, expr in computed.items()}
    return replace(rows, of_table=of_table, columns=of_table)


def _query_rows(node: SqlQuery, source: Source) -> RowsOfScan:
    """Return the rows of a query that only filters and projects one source."""
    named = table = only_source(node.query)
    while isinstance(table, exp.Subquery) and _is_all_rows(table.this):
        table = only_source(table.this)
    if not isinstance(table, exp.Table) or named is None:
        refuse(_TOO_MUCH)
    of_relation = None if table.db else dict(node.relations).get(table.name)
    if of_relation is not None:
        below = rows_above(of_relation, source)
    else:
        below = source(table) or refuse(_TOO_MUCH)
    query = without_qualifier(node.query.unnest(), named.alias_or_name.lower())
    where = query.args.get("where")
    below = filter_rows(below, tuple(conjuncts(where and where.this)), has_tables=False)
    items = [item.unalias() for item in query.expressions]
    if len(items) == 1 and is_whole_star(items[0]):
        return replace(below, schema=node.schema)
    if len(items) != len(node.schema) or any(item.is_star for item in items):
        refuse(_TOO_MUCH)
    columns: dict[str, Made] = {}
    for column, item in zip(node.schema, items, strict=True):
        value = make_column(item, below, False)
        # An untranslated expression may be an aggregate or return several rows per row.
        columns[column.name.lower()] = value if isinstance(item, exp.Column) else required(value)
    return replace(below, schema=node.schema, columns=columns)


def _is_all_rows(query: exp.Expr) -> bool:
    """Return whether a query is `SELECT * FROM ...` without a condition."""
    items = query.expressions
    return not query.args.get("where") and len(items) == 1 and is_whole_star(items[0])


def filter_rows(
    rows: RowsOfScan, conditions: tuple[exp.Expr, ...], *, has_tables: bool = True
) -> RowsOfScan:
    """Return the rows that satisfy conditions.

    Raises:
        Refused: Arrow cannot evaluate a condition.
    """
    filters = []
    for condition in conditions:
        try:
            filters.append(rows.expression(condition, has_tables=has_tables))
        except Refused as refused:
            raise Refused(refused.refusal.of(to_sql(condition))) from refused
    return replace(
        rows,
        filters=(*rows.filters, *filters),
        conditions=(*rows.conditions, *conditions),
    )


def required(made: Made) -> Expression:
    """Return the expression of a column that is read.

    Raises:
        Refused: Arrow cannot compute it.
    """
    if isinstance(made, Refusal):
        raise Refused(made)
    return made


def make_column(expr: exp.Expr, rows: RowsOfScan, has_tables: bool = True) -> Made:
    """Return the expression that computes a column, or why Arrow cannot."""
    if isinstance(expr, exp.Column) and not expr.table:
        # Accept any type: the column may be passed on as a whole, or one of its fields read.
        missing = Refusal(f"{to_sql(expr)} is not a column of the scan")
        return rows.columns.get(expr.name.lower(), missing)
    return tried(rows.expression, expr, has_tables=has_tables)


# -- rows of windows -----------------------------------------------------------------------------


def window_projection(node: Node, zone: str, types: Mapping[str, str]) -> WindowProjection | None:
    """Return the projection of the merged windows below a node, or None if Spark has to compute it.

    Args:
        node: Physical plan without a sink.
        zone: The session's time zone.
        types: Spark types of the merged windows' columns by name.
    """
    try:
        rows = rows_of_windows(node, zone, types)
        columns = result_columns(rows, node.schema)
    except Refused:
        return None
    read = {name for _, expression in columns for name in columns_of(expression)}
    read.update(name for expression in rows.filters for name in columns_of(expression))
    return WindowProjection(columns, rows.filters, TIME if TIME in read else None)


def rows_of_windows(node: Node, zone: str, types: Mapping[str, str]) -> RowsOfScan:
    """Return the rows of a node that only filters and projects windows.

    Takes the arguments of `window_projection`.

    Raises:
        Refused: Another kind of node is in between, or Arrow cannot evaluate a filter.
    """

    def source(relation: Node | exp.Table) -> RowsOfScan | None:
        if not isinstance(relation, GlobalWindowAggregate):
            return None
        return merged_windows(relation, zone, types)

    return rows_above(node, source)


def instant_of_bound(name: str, bound: str, zone: str) -> Made:
    """Return the instant of a bound of windows, which is a time on the wall clock of a zone."""
    if time_zone(zone) is None:
        return Refusal(f"{name} is an instant in the time zone {zone}, which only Spark knows")
    args = (ColumnRef(bound, "timestamp_ntz"), Constant(zone, "string"))
    return Call("instant", args, "timestamp")


def merged_windows(node: GlobalWindowAggregate, zone: str, types: Mapping[str, str]) -> RowsOfScan:
    """Return the rows of a window aggregate. Takes the arguments of `window_projection`."""
    roles = {key.name: key.role for key in node.window_keys}
    schema = tuple(replace(c, type=types.get(c.name, c.type)) for c in node.schema)
    made: dict[str, Made] = {}
    for column in schema:
        if column.name not in roles:
            made[column.name.lower()] = ColumnRef(column.name, column.type)
            continue
        bound = BOUNDS[roles[column.name]]
        made[column.name.lower()] = (
            ColumnRef(bound, column.type)
            if column.type == "timestamp_ntz"
            else instant_of_bound(column.name, bound, zone)
        )
    return RowsOfScan((), made, schema, made, (), (), zone)


def result_columns(rows: RowsOfScan, schema: Schema) -> tuple[tuple[str, Expression], ...]:
    """Return the name and expression of each column of a result.

    Raises:
        Refused: Arrow cannot compute a column, or two have the same name.
    """
    if len({column.name.lower() for column in schema}) < len(schema):
        refuse("two columns have the same name")
    return tuple((column.name, _project(rows, column)) for column in schema)


def _project(rows: RowsOfScan, column: Column) -> Expression:
    made = required(rows.columns[column.name.lower()])
    if made.type != column.type or not is_flat_type(column.type):
        refuse(f"{column.name} is {shown_type(column.type)}, which only Spark can produce")
    return made
