"""Local window aggregate over a table of Parquet files: into the scan of the files."""

from __future__ import annotations

from sqlglot import exp

from planner.arrow_expressions import to_arrow_expression
from planner.arrow_partials import arrow_partials
from planner.logical import Filter, Node, Project, TableScan
from planner.optimizer import Options, Refusal
from planner.physical import LocalWindowAggregate, ScanLocalWindowAggregate
from planner.sql import to_sql
from runtime.expressions import Expression, columns_of


def push_local_aggregate_into_scan(node: Node, options: Options) -> Node | Refusal | None:
    """Aggregate rows into slices where the files are read, so that no row becomes a JVM row.

    Refused where anything between the aggregate and the table is more than conditions and a choice
    of columns, where an expression is outside of what Arrow evaluates with Spark's meaning, and
    where the files are of a kind that the scan does not read as Spark does.
    """
    if not isinstance(node, LocalWindowAggregate) or options.catalog is None:
        return None
    conditions: list[exp.Expr] = []
    below: Node = node.input
    while not isinstance(below, TableScan):
        if isinstance(below, Filter):
            conditions = [*below.conjuncts, *conditions]
        elif not (isinstance(below, Project) and all(i.is_plain_column for i in below.items)):
            return Refusal(f"{type(below).__name__} stands between the aggregate and the table")
        below = below.inputs[0]
    schema, zone = below.schema, options.time_zone
    keys: list[tuple[str, Expression]] = []
    for key in node.keys:
        translated = to_arrow_expression(key.expr, schema, zone)
        if isinstance(translated, str):
            return Refusal(translated)
        keys.append((key.name, translated))
    filters: list[Expression] = []
    for condition in conditions:
        translated = to_arrow_expression(condition, schema, zone)
        if isinstance(translated, str):
            return Refusal(f"{to_sql(condition)}: {translated}")
        filters.append(translated)
    partials = arrow_partials(node.plans, schema, zone)
    if isinstance(partials, str):
        return Refusal(partials)
    needed = {node.time_column.lower()}
    for expression in [*filters, *(key for _, key in keys)]:
        needed |= {name.lower() for name in columns_of(expression)}
    for partial in partials:
        for expression in [*partial.args, *([partial.condition] if partial.condition else [])]:
            needed |= {name.lower() for name in columns_of(expression)}
    columns = tuple(c for c in schema if c.name.lower() in needed)
    source = options.catalog.scan_source(tuple(below.table.split(".")), columns)
    if isinstance(source, str):
        return Refusal(source)
    return ScanLocalWindowAggregate(
        node.schema,
        below.table,
        source,
        node.window,
        node.time_column,
        node.time_type,
        zone,
        tuple(filters),
        tuple(conditions),
        tuple(keys),
        node.keys,
        node.plans,
        partials,
        node.slice_end,
    )
