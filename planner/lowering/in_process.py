"""Lowering of plans whose windows are merged in the driver process, because little data is left."""

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
from runtime.spec.expressions import ColumnRef, RankOrder, columns_of
from runtime.spec.local import ArrowBuffer, SliceRows, is_local
from runtime.spec.slices import SLICE_END
from runtime.spec.steps import SqlStep, Step
from runtime.spec.table import Column


def lower_in_process(plan: Node, zone: str, most_bytes: int) -> InProcessStep | None:
    """Return the step that computes a plan in this process, or None if Spark has to.

    Args:
        plan: A physical plan.
        zone: The session's time zone.
        most_bytes: Maximum bytes of slice files, plus the estimated bytes of uncovered rows, to
            read in this process.
    """
    windows = list(plan.find_all(GlobalWindowAggregate))
    if len(windows) != 1 or not isinstance(windows[0].input, Exchange):
        return None
    scans = list(windows[0].find_all(SliceScan))
    if len(scans) != 1 or _bytes(scans[0]) > most_bytes:
        return None
    tail = scans[0].rows.tail
    if tail is not None and tail.files.others:
        return None  # only Spark can read the files
    peeled = _without_order_and_limit(plan)
    if peeled is None:
        return None
    plan, ordered = peeled
    global_step = _global_step(lower(plan))
    if global_step is None or not isinstance(global_step.input, ExchangeStep):
        return None
    local = global_step.input.input
    if not is_local(local, SliceRows, ArrowBuffer):
        return None
    of = global_step.aggregation
    types = merged_types(local.source, of.accumulators)
    types |= {of.window_start: "timestamp_ntz", of.window_end: "timestamp_ntz"}
    ranks = list(plan.find_all(WindowRank))
    rank = ranks[0] if len(ranks) == 1 else None
    ranked = None if rank is None else _lower_rank(plan, rank, zone)
    projection = lower_projection(plan if rank is None else rank.input, zone, types)
    if projection is None or (rank is not None and ranked is None):
        return None
    step = replace(
        _read_alone(InProcessStep(local, of, projection)), ranked=ranked, ordered=ordered
    )
    # Spark's own correction tables are needed for the estimate.
    estimates = any(isinstance(e, ApproxCountDistinct) for e in step.aggregation.accumulators)
    return None if estimates else step


def _read_alone(step: InProcessStep) -> InProcessStep:
    """Drop aggregates that nothing reads, such as unused columns of a view."""
    of, projection, source = step.aggregation, step.projection, step.input.source
    made = (*(part for _, part in projection.columns), *projection.filters)
    needed = frozenset[str]().union(*map(columns_of, made))
    merged = tuple(part for part in of.accumulators if needed.intersection(part.output_columns))
    carried = frozenset(name for part in merged for name in part.columns)
    partials = tuple(part for part in source.partials if carried.intersection(part.columns))
    read = [*source.filters, *(key for _, key in source.keys)]
    read += [arg for partial in partials for arg in partial.args]
    names = frozenset((SLICE_END,)).union(*map(columns_of, read))
    files = replace(source.files, columns=tuple(c for c in source.files.columns if c.name in names))
    tail = source.tail
    if tail is not None:
        tail_partials = tuple(part for part in tail.partials if carried.intersection(part.columns))
        tail = replace(tail, partials=tail_partials)
    source = replace(source, partials=partials, files=files, tail=tail)
    return InProcessStep(
        replace(step.input, source=source), replace(of, accumulators=merged), projection
    )


def _bytes(scan: SliceScan) -> int:
    """Return the bytes of the slices and the estimated bytes of the rows not covered by them."""
    tail = scan.rows.tail
    return scan.n_bytes + (0 if tail is None else tail.files.n_rows * 8 * len(tail.files.columns))


def _global_step(step: Step) -> GlobalStep | None:
    while isinstance(step, SqlStep) and len(step.inputs) == 1:
        ((_, step),) = step.inputs
    return step if isinstance(step, GlobalStep) else None


# -- ranks, ORDER BY and LIMIT above the windows --------------------------------------------------


def _without_order_and_limit(plan: Node) -> tuple[Node, RowOrder | None] | None:
    """Split a plan into one without ORDER BY, LIMIT and OFFSET and these; None if only Spark can.

    Columns that are only used for ordering come last in the plan, under unique names.
    """
    if not isinstance(plan, SqlQuery) or not isinstance(plan.query, exp.Select):
        return plan, None
    clauses = {key: plan.query.args.get(key) for key in ("order", "limit", "offset")}
    if not any(clauses.values()):
        return plan, None
    counts = [_count(clauses[key]) for key in ("limit", "offset")]
    if any(order_column is None for order_column in counts):
        return None
    query = plan.query.copy()
    for key in clauses:
        query.set(key, None)
    schema = {item.name.lower(): item for item in plan.schema}
    below = {item.name.lower(): item for _, node in plan.relations for item in node.schema}
    order: list[RankOrder] = []
    hidden: list[Column] = []
    for item in clauses["order"].expressions if clauses["order"] else ():
        by = item.this
        if not isinstance(by, exp.Column) or len(by.parts) > 1:
            return None
        order_column = schema.get(by.name.lower())
        if order_column is None:
            source = below.get(by.name.lower())
            if source is None:
                return None
            order_column = Column(f"$order{len(hidden)}", source.type)
            hidden.append(order_column)
            query.append("expressions", alias(column(source.name), order_column.name))
        if not is_flat_type(order_column.type):
            return None
        order.append(rank_order(order_column.name, item))
    limit, offset = counts
    rows = RowOrder(
        tuple(order), limit if clauses["limit"] else None, offset or 0, hidden=len(hidden)
    )
    return replace(plan, query=query, schema=(*plan.schema, *hidden)), rows


def _lower_rank(plan: Node, rank: WindowRank, zone: str) -> RankedRows | None:
    """Lower a rank and the projection above it, or return None if only Spark can."""

    def source(node: Node | exp.Table) -> RowsOfScan | None:
        if node is not rank:
            return None
        made = {part.name.lower(): ColumnRef(part.name, part.type) for part in rank.schema}
        return RowsOfScan((), made, rank.schema, made, (), (), zone)

    try:
        rows = rows_above(plan, source)
        columns = []
        for part in plan.schema:
            expression = rows.columns[part.name.lower()]
            if (
                isinstance(expression, str)
                or expression.type != part.type
                or not is_flat_type(part.type)
            ):
                refuse(f"{part.name} is left to Spark")
            columns.append((part.name, expression))
    except NotEvaluated:
        return None
    names = {part.name.lower(): part.name for part in rank.input.schema}
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
    """Return the number of LIMIT or OFFSET, 0 if absent, None if it is not a literal."""
    if clause is None:
        return 0
    count = clause.args.get("expression")
    if not isinstance(clause, exp.Limit | exp.Offset) or not isinstance(count, exp.Literal):
        return None
    return int(count.name) if count.is_int else None
