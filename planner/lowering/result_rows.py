"""What lies above windows that are put together in this process: ranks, ORDER BY and LIMIT."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.arrow.calls import NotEvaluated, refuse
from planner.arrow.scan_rows import RowsOfScan, rows_above
from planner.arrow.types import is_plain_type
from planner.nodes.logical import Node, SqlQuery, WindowRank
from planner.sql.build import alias, column
from planner.streams.ranked_rows import rank_order
from runtime.spec.exchange import RankedRows, RowOrder, WindowProjection
from runtime.spec.expressions import ColumnRef
from runtime.spec.ranks import RankOrder
from runtime.spec.table import Column


def without_order_and_limit(plan: Node) -> tuple[Node, RowOrder | None] | None:
    """A plan without the ORDER BY, LIMIT and OFFSET on top of it, and these; None: Spark has to.

    Columns that only order come last in the plan, under names of their own.
    """
    if not isinstance(plan, SqlQuery) or not isinstance(plan.query, exp.Select):
        return plan, None
    clauses = {key: plan.query.args.get(key) for key in ("order", "limit", "offset")}
    if not any(clauses.values()):
        return plan, None
    counts = [_count(clauses[key]) for key in ("limit", "offset")]
    if any(found is None for found in counts):
        return None
    query = plan.query.copy()
    for key in clauses:
        query.set(key, None)
    schema = {each.name.lower(): each for each in plan.schema}
    below = {each.name.lower(): each for _, node in plan.relations for each in node.schema}
    order: list[RankOrder] = []
    hidden: list[Column] = []
    for each in clauses["order"].expressions if clauses["order"] else ():
        by = each.this
        if not isinstance(by, exp.Column) or len(by.parts) > 1:
            return None
        found = schema.get(by.name.lower())
        if found is None:
            source = below.get(by.name.lower())
            if source is None:
                return None
            found = Column(f"$order{len(hidden)}", source.type)
            hidden.append(found)
            query.append("expressions", alias(column(source.name), found.name))
        if not is_plain_type(found.type):
            return None
        order.append(rank_order(found.name, each))
    limit, offset = counts
    rows = RowOrder(
        tuple(order), limit if clauses["limit"] else None, offset or 0, hidden=len(hidden)
    )
    return replace(plan, query=query, schema=(*plan.schema, *hidden)), rows


def rank_in(plan: Node) -> WindowRank | None:
    """The one rank of a plan; None if there is none, or several."""
    found = list(plan.find_all(WindowRank))
    return found[0] if len(found) == 1 else None


def lowered_rank(plan: Node, rank: WindowRank, zone: str) -> RankedRows | None:
    """A rank and what a plan makes of its rows; None: Spark has to do it.

    Args:
        plan: the plan.
        rank: the one rank in it.
        zone: the session's time zone.
    """

    def source(node: Node | exp.Table) -> RowsOfScan | None:
        if node is not rank:
            return None
        made = {each.name.lower(): ColumnRef(each.name, each.type) for each in rank.schema}
        return RowsOfScan((), made, rank.schema, made, (), (), zone)

    try:
        rows = rows_above(plan, source)
        columns = []
        for each in plan.schema:
            found = rows.columns[each.name.lower()]
            if isinstance(found, str) or found.type != each.type or not is_plain_type(each.type):
                refuse(f"{each.name} is left to Spark")
            columns.append((each.name, found))
    except NotEvaluated:
        return None
    names = {each.name.lower(): each.name for each in rank.input.schema}
    order = []
    for ordered in rank.order_by:
        by = ordered.this
        if not isinstance(by, exp.Column) or by.name.lower() not in names:
            return None
        order.append(rank_order(names[by.name.lower()], ordered))
    return RankedRows(
        rank.rank_type,
        (rank.rank_start, rank.rank_end),
        tuple(names[name.lower()] for name in (*rank.window_columns, *rank.partition_by)),
        tuple(order),
        rank.rank_column,
        WindowProjection(tuple(columns), rows.filters),
    )


def _count(clause: exp.Expr | None) -> int | None:
    """The number of LIMIT or OFFSET, 0 without it; None: it is no plain one."""
    if clause is None:
        return 0
    count = clause.args.get("expression")
    if not isinstance(clause, exp.Limit | exp.Offset) or not isinstance(count, exp.Literal):
        return None
    return int(count.name) if count.is_int else None
