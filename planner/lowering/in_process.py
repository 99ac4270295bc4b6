"""Plans whose windows are put together in this process, because little is left to do."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.arrow.calls import NotEvaluated, refuse
from planner.arrow.scan_rows import RowsOfScan, rows_above
from planner.lowering.batch import lower, lower_projection
from planner.materialized.windows import merged_types
from planner.nodes.logical import Node, SqlQuery, WindowRank
from planner.nodes.physical import Exchange, GlobalWindowAggregate, SliceScan
from planner.sql.build import alias, column, is_flat_type
from planner.streams.ranked_rows import rank_order
from runtime.spec.aggregates import ApproxCountDistinct
from runtime.spec.exchange import (
    ExchangeStep,
    GlobalStep,
    InProcessStep,
    RankedRows,
    RowOrder,
    WindowProjection,
)
from runtime.spec.expressions import ColumnRef, columns_of
from runtime.spec.local import ArrowBuffer, SliceRows, is_local
from runtime.spec.ranks import RankOrder
from runtime.spec.slices import SLICE_END
from runtime.spec.steps import SqlStep, Step
from runtime.spec.table import Column


def lower_in_process(plan: Node, zone: str, most_bytes: int) -> InProcessStep | None:
    """What computes the rows of a plan in this process; None: Spark does.

    Args:
        plan: a physical plan.
        zone: the session's time zone.
        most_bytes: of the files of slices, and about of the rows beside them, no more than this is
            read here.
    """
    windows = list(plan.find_all(GlobalWindowAggregate))
    if len(windows) != 1 or not isinstance(windows[0].input, Exchange):
        return None
    scans = list(windows[0].find_all(SliceScan))
    if len(scans) != 1 or _bytes(scans[0]) > most_bytes:
        return None
    tail = scans[0].rows.tail
    if tail is not None and tail.files.others:
        return None  # files that Spark's reader alone reads
    peeled = _without_order_and_limit(plan)
    if peeled is None:
        return None
    plan, ordered = peeled
    found = _global_step(lower(plan))
    if found is None or not isinstance(found.input, ExchangeStep):
        return None
    local = found.input.input
    if not is_local(local, SliceRows, ArrowBuffer):
        return None
    of = found.aggregation
    types = merged_types(local.source, of.accumulators)
    types |= {of.window_start: "timestamp_ntz", of.window_end: "timestamp_ntz"}
    ranks = list(plan.find_all(WindowRank))
    rank = ranks[0] if len(ranks) == 1 else None
    ranked = None if rank is None else _lowered_rank(plan, rank, zone)
    projection = lower_projection(plan if rank is None else rank.input, zone, types)
    if projection is None or (rank is not None and ranked is None):
        return None
    step = replace(
        _read_alone(InProcessStep(local, of, projection)), ranked=ranked, ordered=ordered
    )
    # Spark estimates by tables of its own
    estimates = any(isinstance(e, ApproxCountDistinct) for e in step.aggregation.accumulators)
    return None if estimates else step


def _read_alone(step: InProcessStep) -> InProcessStep:
    """The same without the aggregates of a view, say, that nothing reads."""
    of, projection, source = step.aggregation, step.projection, step.input.source
    made = (*(each for _, each in projection.columns), *projection.filters)
    wanted = frozenset[str]().union(*map(columns_of, made))
    merged = tuple(each for each in of.accumulators if wanted.intersection(each.output_columns))
    carried = frozenset(name for each in merged for name in each.columns)
    partials = tuple(each for each in source.partials if carried.intersection(each.columns))
    read = [*source.filters, *(key for _, key in source.keys)]
    read += [arg for partial in partials for arg in partial.args]
    names = frozenset((SLICE_END,)).union(*map(columns_of, read))
    files = replace(source.files, columns=tuple(c for c in source.files.columns if c.name in names))
    tail = source.tail
    if tail is not None:
        kept = tuple(each for each in tail.partials if carried.intersection(each.columns))
        tail = replace(tail, partials=kept)
    source = replace(source, partials=partials, files=files, tail=tail)
    return InProcessStep(
        replace(step.input, source=source), replace(of, accumulators=merged), projection
    )


def _bytes(scan: SliceScan) -> int:
    """The bytes of slices, and those that rows beside them may have."""
    tail = scan.rows.tail
    return scan.n_bytes + (0 if tail is None else tail.files.n_rows * 8 * len(tail.files.columns))


def _global_step(step: Step) -> GlobalStep | None:
    while isinstance(step, SqlStep) and len(step.inputs) == 1:
        ((_, step),) = step.inputs
    return step if isinstance(step, GlobalStep) else None


# -- what lies above the windows: ranks, ORDER BY and LIMIT ----------------------------------------


def _without_order_and_limit(plan: Node) -> tuple[Node, RowOrder | None] | None:
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
        if not is_flat_type(found.type):
            return None
        order.append(rank_order(found.name, each))
    limit, offset = counts
    rows = RowOrder(
        tuple(order), limit if clauses["limit"] else None, offset or 0, hidden=len(hidden)
    )
    return replace(plan, query=query, schema=(*plan.schema, *hidden)), rows


def _lowered_rank(plan: Node, rank: WindowRank, zone: str) -> RankedRows | None:
    """A rank and what a plan makes of its rows; None: Spark has to do it."""

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
            if isinstance(found, str) or found.type != each.type or not is_flat_type(each.type):
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
