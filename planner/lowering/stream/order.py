"""ORDER BY and LIMIT of the whole result of a stream.

Windows are emitted in the order of their ends: the windows of a micro-batch end later than all
windows emitted before it. Sorting each micro-batch by window end first therefore sorts the whole
result.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.aggregates.calls import canonical
from planner.catalog import Catalog
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    Aggregate,
    AttachedWindow,
    Node,
    SqlQuery,
    WindowDeduplicate,
    WindowRank,
)
from planner.nodes.physical import GlobalWindowAggregate
from planner.nodes.window_columns import window_properties
from planner.sql.build import is_number_literal
from planner.streams.ranked_rows import rank_order
from planner.streams.tables import arrives_at_once, streams_of
from runtime.spec.expressions import RankOrder


def without_limit_of_stream(plan: Node) -> tuple[Node, int | None]:
    """Split a plan into one without the LIMIT of its whole result, and that limit.

    The consumer counts the rows, so that the stream can end after the last one.

    Returns:
        (the plan, None) if it has no such LIMIT.
    """
    if not isinstance(plan, SqlQuery) or plan.query.args.get("offset") is not None:
        return plan, None
    limit = plan.query.args.get("limit")
    count: exp.Expr | None = None
    if isinstance(limit, exp.Limit):
        count = limit.expression
    elif isinstance(limit, exp.Fetch):
        count = limit.args.get("count")
    if not isinstance(count, exp.Literal) or not count.is_int:
        return plan, None
    query = plan.query.copy()
    query.set("limit", None)
    return replace(plan, query=query), int(count.name)


def without_order_of_stream(plan: Node, catalog: Catalog) -> tuple[Node, tuple[RankOrder, ...]]:
    """Split a plan into one without the ORDER BY of its whole result, and the sort keys.

    Returns:
        The plan unchanged if it has no ORDER BY, or one that needs all rows before the first.
        Otherwise each micro-batch is sorted by the keys.
    """
    if not isinstance(plan, SqlQuery) or not isinstance(plan.query, exp.Select):
        return plan, ()
    order = plan.query.args.get("order")
    if order is None or any(plan.query.args.get(key) for key in ("limit", "offset")):
        return plan, ()
    attached = window_properties(plan)
    if attached is None or not arrives_at_once(plan, catalog) or not _is_in_step(plan, catalog):
        return plan, ()
    names = [_output_name(ordered.this.unnest(), plan) for ordered in order.expressions]
    keys = [
        rank_order(name, ordered)
        for name, ordered in zip(names, order.expressions, strict=True)
        if name is not None
    ]
    if len(keys) < len(names) or not _goes_with_time(keys[0], attached):
        return plan, ()
    query = plan.query.copy()
    query.set("order", None)
    return replace(plan, query=query), tuple(keys)


def _is_in_step(node: Node, catalog: Catalog) -> bool:
    """Return whether a single watermark emits all windows of a node."""
    if isinstance(node, GlobalWindowAggregate | Aggregate | WindowRank | WindowDeduplicate):
        return True
    if isinstance(node, WindowJoin):
        return True  # both sides wait for both watermarks
    streams = [child for child in node.inputs if streams_of(child, catalog)]
    if isinstance(node, SqlQuery):
        names = {name for name, child in node.relations if child in streams}
        tables = [table for table in node.query.find_all(exp.Table) if table.name in names]
        if len(tables) != 1:
            return False
    return len(streams) == 1 and _is_in_step(streams[0], catalog)


def _output_name(key: exp.Expr, plan: SqlQuery) -> str | None:
    """Return the result column that an ORDER BY key names, if any."""
    names = [column.name for column in plan.schema]
    lower_names = [name.lower() for name in names]
    items = [item.unalias() for item in plan.query.expressions]
    if not plan.query.args.get("joins"):
        key, *items = [_unqualify(expr) for expr in (key, *items)]
    place: int | None = None
    if is_number_literal(key) and key.name.isdigit():
        place = int(key.name) - 1
    elif isinstance(key, exp.Column) and not key.table and key.name.lower() in lower_names:
        place = lower_names.index(key.name.lower())
    elif len(items) == len(names):
        texts = [canonical(item) for item in items]
        place = texts.index(canonical(key)) if canonical(key) in texts else None
    if place is None or not 0 <= place < len(names) or lower_names.count(lower_names[place]) > 1:
        return None
    return names[place]


def _unqualify(expr: exp.Expr) -> exp.Expr:
    """Return an expression over one relation with unqualified columns."""
    root = exp.Tuple(expressions=[expr.copy()])
    for column in root.find_all(exp.Column):
        column.set("table", None)
    unqualified: exp.Expr = root.expressions[0]
    return unqualified


def _goes_with_time(key: RankOrder, attached: AttachedWindow) -> bool:
    """Return whether a column increases with the order in which windows are emitted."""
    role = attached.role_of(key.column)
    if role == "start" and not attached.spec.starts_in_order:
        return False
    return role is not None and not key.is_descending
