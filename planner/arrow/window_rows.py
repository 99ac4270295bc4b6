"""What lies above the windows of a query, as expressions that workers evaluate with Arrow.

Rows of windows that are fetched or written as files need not pass the JVM then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from planner.arrow.calls import NotEvaluated, refuse
from planner.arrow.scan_rows import RowsOfScan, rows_above
from planner.nodes.logical import Node
from planner.nodes.physical import GlobalWindowAggregate
from planner.sql.build import is_flat_type
from runtime.spec.exchange import WindowProjection
from runtime.spec.expressions import ColumnRef, Expression, columns_of


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
        if len({column.name.lower() for column in node.schema}) < len(node.schema):
            refuse("two columns have one name")
        columns = tuple(
            (column.name, _column(rows, column.name, column.type)) for column in node.schema
        )
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


def _column(rows: RowsOfScan, name: str, type_: str) -> Expression:
    made = rows.columns[name.lower()]
    if isinstance(made, str):
        refuse(made)
    if made.type != type_ or not is_flat_type(type_):
        refuse(f"{name} is {type_.upper()}, which Spark makes")
    return made
