"""What lies above a table or windows, as expressions over the columns of the files or windows.

Rows of windows that are fetched or written as files need not pass the JVM then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.arrow.calls import NotEvaluated, refuse
from planner.arrow.expressions import to_arrow_expression
from planner.catalog import Catalog, Schema
from planner.nodes.logical import Filter, Node, Project, SqlQuery, TableScan
from planner.nodes.physical import GlobalWindowAggregate
from planner.sql.build import conjuncts, is_flat_type, is_whole_star, select_all_from, to_sql
from planner.sql.parts import only_source
from runtime.spec.exchange import WindowProjection
from runtime.spec.expressions import Call, ColumnRef, Expression, columns_of
from runtime.spec.table import Column

# What a column is made of, or why the scan cannot make it
_Made = Expression | str

_TOO_MUCH = "a query that does more than filter and project stands between it and the table"

# What a node, or a table of a query, is the source of; None: it is none
Source = Callable[[Node | exp.Table], "RowsOfScan | None"]


@dataclass(frozen=True)
class RowsOfScan:
    """The rows of a node, each column an expression over those of the files.

    Attributes:
        table: the table that is read.
        of_table: what its columns are made of, by their names in lower case.
        schema: the columns of the node.
        columns: what they are made of, likewise.
        filters: conditions of which all must be true for a row to count.
        conditions: the same as the query says it, for EXPLAIN.
        zone: the session's time zone, for timestamps written as text.
    """

    table: tuple[str, ...]
    of_table: Mapping[str, _Made]
    schema: Schema
    columns: Mapping[str, _Made]
    filters: tuple[Expression, ...]
    conditions: tuple[exp.Expr, ...]
    zone: str

    def expression(self, expr: exp.Expr, *, has_tables: bool = True) -> Expression:
        """An expression over the node's columns.

        Args:
            expr: the expression.
            has_tables: whether what stands before a point in it may be a table.

        Raises:
            NotEvaluated: the scan does not evaluate it; the text says why.
        """
        found = to_arrow_expression(expr, self.schema, self.zone, has_tables=has_tables)
        return refuse(found) if isinstance(found, str) else self.over_files(found)

    def over_files(self, expression: Expression) -> Expression:
        """The same over the files' columns of what is over the node's.

        Raises:
            NotEvaluated: it reads a column that the scan cannot make.
        """
        if isinstance(expression, Call):
            args = tuple(self.over_files(arg) for arg in expression.args)
            return expression if args == expression.args else replace(expression, args=args)
        if not isinstance(expression, ColumnRef):
            return expression
        name, _, field = expression.name.partition(".")
        made = self.columns[name.lower()]
        if isinstance(made, str):
            refuse(made)
        if field:
            if not isinstance(made, ColumnRef):
                refuse(f"{expression.name} is a field of what is no column of the files")
            return ColumnRef(f"{made.name}.{field}", expression.type)
        if made.type != expression.type:
            refuse(f"{expression.name} is {made.type.upper()} to the scan")
        return made


def rows_of_scan(node: Node, catalog: Catalog, zone: str) -> RowsOfScan:
    """The rows of a node that filters and projects those of a table.

    Args:
        node: the node.
        catalog: knows computed columns.
        zone: the session's time zone.

    Raises:
        NotEvaluated: anything else stands in between, or the scan does not evaluate a filter.
    """

    def source(found: Node | exp.Table) -> RowsOfScan | None:
        if isinstance(found, TableScan):
            return _of_table(tuple(found.table.split(".")), found.schema, catalog, zone)
        if isinstance(found, exp.Table):
            name = tuple(part.name for part in found.parts)
            plain = exp.Table(**{key: found.args.get(key) for key in ("this", "db", "catalog")})
            return _of_table(name, catalog.analyze(select_all_from(plain), {}), catalog, zone)
        return None

    return rows_above(node, source)


def rows_above(node: Node, source: Source) -> RowsOfScan:
    """The rows of a node that filters and projects those of a source.

    Args:
        node: the node.
        source: knows the sources.

    Raises:
        NotEvaluated: anything else stands in between, or Arrow does not evaluate a filter.
    """
    found = source(node)
    if found is not None:
        return found
    match node:
        case Filter():
            return _filtered(rows_above(node.input, source), node.conjuncts)
        case Project():
            below = rows_above(node.input, source)
            made = {item.name.lower(): _made(item.expr, below) for item in node.items}
            return replace(below, schema=node.schema, columns=made)
        case SqlQuery():
            return _of_query(node, source)
    refuse(f"{type(node).__name__} stands between the aggregate and the table")


def _of_table(name: tuple[str, ...], schema: Schema, catalog: Catalog, zone: str) -> RowsOfScan:
    physical: dict[str, _Made] = {
        column.name.lower(): ColumnRef(column.name, column.type) for column in schema
    }
    rows = RowsOfScan(name, physical, schema, physical, (), (), zone)
    computed = catalog.computed_columns(name)
    of_table = physical | {key: _made(expr, rows, False) for key, expr in computed.items()}
    return replace(rows, of_table=of_table, columns=of_table)


def _of_query(node: SqlQuery, source: Source) -> RowsOfScan:
    """The rows of a text that filters and projects those of one source."""
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
    called = named.alias_or_name.lower()

    def unqualified(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or len(part.parts) == 1:
            return part
        first, *names = part.parts
        if first.name.lower() != called:
            return part
        return exp.Column(**dict(zip(("this", "table", "db"), reversed(names), strict=False)))

    own = node.query.unnest().transform(unqualified)
    where = own.args.get("where")
    below = _filtered(below, tuple(conjuncts(where and where.this)), has_tables=False)
    items = [item.unalias() for item in own.expressions]
    if len(items) == 1 and is_whole_star(items[0]):
        return replace(below, schema=node.schema)
    if len(items) != len(node.schema) or any(item.is_star for item in items):
        refuse(_TOO_MUCH)
    made: dict[str, _Made] = {}
    for column, item in zip(node.schema, items, strict=True):
        found = _made(item, below, False)
        # what is not known may be an aggregate, or make several rows of one
        if isinstance(found, str) and not isinstance(item, exp.Column):
            refuse(found)
        made[column.name.lower()] = found
    return replace(below, schema=node.schema, columns=made)


def _is_all_rows(query: exp.Expr) -> bool:
    """Whether a query is `SELECT * FROM ...`, without a condition."""
    items = query.expressions
    return not query.args.get("where") and len(items) == 1 and is_whole_star(items[0])


def _filtered(
    rows: RowsOfScan, conditions: tuple[exp.Expr, ...], *, has_tables: bool = True
) -> RowsOfScan:
    filters = []
    for condition in conditions:
        try:
            filters.append(rows.expression(condition, has_tables=has_tables))
        except NotEvaluated as reason:
            refuse(f"{to_sql(condition)}: {reason}")
    return replace(
        rows,
        filters=(*rows.filters, *filters),
        conditions=(*rows.conditions, *conditions),
    )


def _made(expr: exp.Expr, rows: RowsOfScan, has_tables: bool = True) -> _Made:
    if isinstance(expr, exp.Column) and not expr.table:
        # of any type: it may only be handed on, or a field of it be read
        return rows.columns.get(expr.name.lower(), f"{to_sql(expr)} is no column of the scan")
    try:
        return rows.expression(expr, has_tables=has_tables)
    except NotEvaluated as reason:
        return str(reason)


# -- rows of windows -----------------------------------------------------------------------------


def window_projection(
    node: Node, zone: str, bounds: Mapping[str, str], types: Mapping[str, str]
) -> WindowProjection | None:
    """What is made of the merged windows below a node; None: Spark has to do it.

    Args:
        node: a physical plan without a sink.
        zone: the session's time zone.
        bounds: what the columns of merged windows are called by role: start, end, time.
        types: Spark's types of the columns of merged windows, by name.
    """
    try:
        rows = rows_of_windows(node, zone, bounds, types)
        if len(node.column_names) < len(node.schema):
            refuse("two columns have one name")
        columns = tuple((column.name, _projected(rows, column)) for column in node.schema)
    except NotEvaluated:
        return None
    read = {name for _, each in columns for name in columns_of(each)}
    read.update(name for each in rows.filters for name in columns_of(each))
    time = bounds["time"]
    return WindowProjection(columns, rows.filters, time if time in read else None)


def rows_of_windows(
    node: Node, zone: str, bounds: Mapping[str, str], types: Mapping[str, str]
) -> RowsOfScan:
    """The rows of a node that filters and projects windows; arguments as of `window_projection`.

    Raises:
        NotEvaluated: anything else stands in between, or Arrow does not evaluate a filter.
    """

    def source(found: Node | exp.Table) -> RowsOfScan | None:
        if not isinstance(found, GlobalWindowAggregate):
            return None
        roles = {key.name: key.role for key in found.window_keys}
        schema = tuple(replace(c, type=types.get(c.name, c.type)) for c in found.schema)
        made: dict[str, Expression | str] = {}
        for column in schema:
            if column.name not in roles:
                made[column.name.lower()] = ColumnRef(column.name, column.type)
            elif column.type == "timestamp_ntz":
                made[column.name.lower()] = ColumnRef(bounds[roles[column.name]], column.type)
            else:
                made[column.name.lower()] = f"{column.name} is an instant, which Spark makes"
        return RowsOfScan((), made, schema, made, (), (), zone)

    return rows_above(node, source)


def _projected(rows: RowsOfScan, column: Column) -> Expression:
    made = rows.columns[column.name.lower()]
    if isinstance(made, str):
        refuse(made)
    if made.type != column.type or not is_flat_type(column.type):
        refuse(f"{column.name} is {column.type.upper()}, which Spark makes")
    return made
