"""Plans whose windows are put together in this process, because little is left to do."""

from __future__ import annotations

from dataclasses import replace

from planner.lowering.batch import lower, lower_projection
from planner.lowering.result_rows import lowered_rank, rank_in, without_order_and_limit
from planner.materialized.windows import merged_types
from planner.nodes.logical import Node
from planner.nodes.physical import Exchange, GlobalWindowAggregate, SliceScan
from runtime.spec.aggregates import ApproxCountDistinct
from runtime.spec.exchange import ExchangeStep, GlobalStep, InProcessStep
from runtime.spec.expressions import columns_of
from runtime.spec.local import ArrowBuffer, SliceRows, is_local
from runtime.spec.slices import SLICE_END
from runtime.spec.steps import SqlStep, Step


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
    peeled = without_order_and_limit(plan)
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
    rank = rank_in(plan)
    ranked = None if rank is None else lowered_rank(plan, rank, zone)
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
