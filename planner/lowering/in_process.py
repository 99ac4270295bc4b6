"""Plans whose windows are put together in this process, because little is left to do."""

from __future__ import annotations

from collections.abc import Iterator

from planner.lowering.batch import lower, lower_projection
from planner.materialized.windows import merged_types
from planner.nodes.logical import Node
from planner.nodes.physical import Exchange, GlobalWindowAggregate, SliceScan
from runtime.spec.aggregates import ApproxCountDistinct
from runtime.spec.exchange import ExchangeStep, GlobalStep, InProcessStep
from runtime.spec.local import ArrowBuffer, SliceRows, is_local
from runtime.spec.steps import SqlStep, Step


def lower_in_process(plan: Node, zone: str, most_bytes: int) -> InProcessStep | None:
    """What computes the rows of a plan in this process; None: Spark does.

    Args:
        plan: a physical plan.
        zone: the session's time zone.
        most_bytes: of the files of slices, and about of the rows beside them, no more than this is
            read here.
    """
    windows = list(_windows(plan))
    if len(windows) != 1 or not isinstance(windows[0].input, Exchange):
        return None
    scans = list(_scans(windows[0].input))
    if len(scans) != 1 or _bytes(scans[0]) > most_bytes:
        return None
    found = _global_step(lower(plan))
    if found is None or not isinstance(found.input, ExchangeStep):
        return None
    local = found.input.input
    if not is_local(local, SliceRows, ArrowBuffer):
        return None
    # Spark estimates by tables of its own
    if any(isinstance(each, ApproxCountDistinct) for each in found.aggregation.accumulators):
        return None
    of = found.aggregation
    types = merged_types(local.source, of.accumulators)
    types |= {of.window_start: "timestamp_ntz", of.window_end: "timestamp_ntz"}
    projection = lower_projection(plan, zone, types)
    return None if projection is None else InProcessStep(local, found.aggregation, projection)


def _windows(node: Node) -> Iterator[GlobalWindowAggregate]:
    if isinstance(node, GlobalWindowAggregate):
        yield node
        return
    for child in node.inputs:
        yield from _windows(child)


def _scans(node: Node) -> Iterator[SliceScan]:
    if isinstance(node, SliceScan):
        yield node
        return
    for child in node.inputs:
        yield from _scans(child)


def _bytes(scan: SliceScan) -> int:
    """The bytes of slices, and those that rows beside them may have."""
    tail = scan.rows.tail
    return scan.n_bytes + (0 if tail is None else tail.files.n_rows * 8 * len(tail.files.columns))


def _global_step(step: Step) -> GlobalStep | None:
    while isinstance(step, SqlStep) and len(step.inputs) == 1:
        ((_, step),) = step.inputs
    return step if isinstance(step, GlobalStep) else None
