"""Lowering of plans whose windows are computed in the driver process, because they read little."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.arrow.calls import NotEvaluated, refuse
from planner.arrow.scan_rows import RowsOfScan, rows_above
from planner.lowering.batch import lower, lower_projection
from planner.materialized.windows import merged_types
from planner.nodes.logical import Node, SqlQuery, WindowRank
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    ScanLocalWindowAggregate,
    SliceScan,
)
from planner.sql.build import alias, column, is_flat_type
from planner.streams.ranked_rows import rank_order
from runtime.spec.aggregates import Accumulator
from runtime.spec.exchange import (
    ExchangeStep,
    GlobalStep,
    InProcessStep,
    RankedRows,
    RowOrder,
    WindowProjection,
)
from runtime.spec.expressions import ColumnRef, RankOrder, columns_of
from runtime.spec.local import (
    ArrowBuffer,
    FileLocalStep,
    FileScan,
    SliceLocalStep,
    SliceRows,
    is_local,
)
from runtime.spec.scan import ScanSource
from runtime.spec.slices import SLICE_END
from runtime.spec.steps import SqlStep, Step
from runtime.spec.table import Column

# Returns the Spark types of the columns of windows that are merged from the partials of files
TypesOfFiles = Callable[[FileLocalStep, Sequence[Accumulator]], Mapping[str, str]]


@dataclass(frozen=True)
class Limits:
    """Limits of what this process computes; above them Spark does.

    Attributes:
        slice_bytes: Maximum bytes of slice files, plus the estimated bytes of uncovered rows. 0:
            never.
        file_bytes: Maximum estimated bytes of the rows of files. None: Spark reads all files.
    """

    slice_bytes: int
    file_bytes: int | None


def lower_in_process(
    plan: Node, zone: str, limits: Limits, types_of_files: TypesOfFiles
) -> InProcessStep | str:
    """Return the step that computes a plan in this process, or the reason why Spark has to.

    Args:
        plan: A physical plan.
        zone: The session's time zone.
        limits: Limits of what to read here.
        types_of_files: Types of windows merged from the partials of files.
    """
    if limits.file_bytes is None and not any(plan.find_all(SliceScan)):
        return FILES_ON_SPARK
    windows = list(plan.find_all(GlobalWindowAggregate))
    if len(windows) != 1 or not isinstance(windows[0].input, Exchange):
        return "it is not a single window aggregation in two phases"
    reason = _too_much(windows[0], limits)
    if reason is not None:
        return reason
    peeled = _without_order_and_limit(plan)
    if peeled is None:
        return "Spark evaluates its ORDER BY or LIMIT"
    plan, ordered = peeled
    global_step = _global_step(lower(plan))
    if global_step is None or not isinstance(global_step.input, ExchangeStep):
        return "Spark computes something above its windows"
    of, local = global_step.aggregation, global_step.input.input
    if is_local(local, SliceRows, ArrowBuffer):
        types = merged_types(local.source, of.accumulators)
    elif is_local(local, FileScan, ArrowBuffer):
        types = dict(types_of_files(local, of.accumulators))
    else:
        return "Spark reads its table or computes its partials"
    types |= {of.window_start: "timestamp_ntz", of.window_end: "timestamp_ntz"}
    ranks = list(plan.find_all(WindowRank))
    rank = ranks[0] if len(ranks) == 1 else None
    ranked = None if rank is None else _lower_rank(plan, rank, zone)
    projection = lower_projection(plan if rank is None else rank.input, zone, types)
    if projection is None or (rank is not None and ranked is None):
        return "Spark evaluates an expression above its windows"
    step = InProcessStep(local, of, projection, ranked, ordered)
    return _read_alone(step, local) if is_local(local, SliceRows, ArrowBuffer) else step


def _too_much(windows: GlobalWindowAggregate, limits: Limits) -> str | None:
    """Return why the tables of a window aggregation are left to Spark, or None."""
    slices = list(windows.find_all(SliceScan))
    if slices:
        scan = slices[0]
        if len(slices) > 1:
            return "it reads several tables"
        if _bytes(scan) > limits.slice_bytes:
            return "its slices have more bytes than 'sqlwin.materialized.in-process-bytes'"
        tail = scan.rows.tail
        return _ONLY_SPARK_READS if tail is not None and tail.files.others else None
    if limits.file_bytes is None:
        return FILES_ON_SPARK
    scans = list(windows.find_all(ScanLocalWindowAggregate))
    if len(scans) != 1 or not isinstance(scans[0].scan, FileScan):
        return "Spark reads its table or computes its partials"
    source = scans[0].scan.files
    if source.others:
        return _ONLY_SPARK_READS
    if _bytes_of_rows(source) > limits.file_bytes:
        return "its files have more bytes than 'sqlwin.in-process.max-bytes'"
    return None


_ONLY_SPARK_READS = "only Spark can read some of its files"
# Reason for all queries over files of a session whose Spark the user has chosen
FILES_ON_SPARK = "the session has its own Spark (--master, master=, spark= or spark-submit)"


def _read_alone(step: InProcessStep, local: SliceLocalStep) -> InProcessStep:
    """Drop aggregates that nothing reads, such as unused columns of a view."""
    of, projection, source = step.aggregation, step.projection, local.source
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
    return replace(
        step, input=replace(local, source=source), aggregation=replace(of, accumulators=merged)
    )


def _bytes(scan: SliceScan) -> int:
    """Return the bytes of the slices and the estimated bytes of the rows not covered by them."""
    tail = scan.rows.tail
    return scan.n_bytes + (0 if tail is None else _bytes_of_rows(tail.files))


def _bytes_of_rows(files: ScanSource) -> int:
    """Return the estimated bytes of the rows of files in memory."""
    return files.n_rows * 8 * len(files.columns)


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
                refuse(f"{part.name} is not supported in the driver")
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
