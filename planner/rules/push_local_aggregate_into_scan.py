"""Local window aggregate over a table of Parquet files: into the scan of the files."""

from __future__ import annotations

from dataclasses import fields

from sqlglot import exp

from planner.arrow_expressions import to_arrow_expression
from planner.arrow_partials import arrow_partials
from planner.catalog import Catalog
from planner.logical import Filter, Node, Project, TableScan
from planner.optimizer import Options, Refusal
from planner.physical import (
    LocalWindowAggregate,
    ScanLocalWindowAggregate,
    StreamScanLocalWindowAggregate,
    scan_step,
)
from planner.sql import to_sql
from planner.stream_delay import delay_us
from runtime.expressions import Expression, columns_of
from runtime.scan_spec import StreamFiles, StreamScan


def push_local_aggregate_into_scan(node: Node, options: Options) -> Node | Refusal | None:
    """Aggregate rows into slices where the files are read, so that no row becomes a JVM row.

    Refused where anything between the aggregate and the table is more than conditions and a choice
    of columns, where an expression is outside of what Arrow evaluates with Spark's meaning, and
    where the files are of a kind that the scan does not read as Spark does.
    """
    if not isinstance(node, LocalWindowAggregate) or options.catalog is None:
        return None
    if isinstance(node, StreamScanLocalWindowAggregate):
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
    name = tuple(below.table.split("."))
    is_stream = options.catalog.stream(name) is not None
    find = options.catalog.stream_files if is_stream else options.catalog.scan_source
    found = find(name, columns)
    if isinstance(found, str):
        return Refusal(found)
    scan = ScanLocalWindowAggregate(
        node.schema,
        below.table,
        found.source if isinstance(found, StreamFiles) else found,
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
    if isinstance(found, StreamFiles):
        return _of_stream(node, scan, found, options.catalog)
    return scan


def _of_stream(
    node: LocalWindowAggregate, scan: ScanLocalWindowAggregate, files: StreamFiles, catalog: Catalog
) -> Node | Refusal:
    delay = delay_us(node, catalog)
    if delay is None:
        return Refusal("the watermark is not the time column, or a fixed time before it")
    return StreamScanLocalWindowAggregate(
        **{each.name: getattr(node, each.name) for each in fields(node)},
        scan=StreamScan(scan_step(scan), files.table, delay),
        conditions=scan.conditions,
    )
