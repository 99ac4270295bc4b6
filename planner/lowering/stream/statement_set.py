"""Lowering of a statement set whose INSERTs share the windows of one stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.catalog import Catalog
from planner.lowering.plan import Lowering
from planner.lowering.stream.steps import lower_local
from planner.lowering.window_aggregates import window_aggregation
from planner.nodes.logical import Node, Sink
from planner.nodes.physical import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    SharedExchange,
    SharedSlices,
)
from planner.streams.slice_store import choose_slice_store
from planner.streams.tables import streams_of
from runtime.plan.nodes import BatchWindowsStep, PlanNode
from runtime.plan.streams import StreamReader, StreamSharedStep


@dataclass(frozen=True)
class StreamSetSteps:
    """Steps of one stream that serves several INSERTs.

    Attributes:
        shared: The window operator.
        results: For each INSERT, the steps over the windows of a micro-batch.
    """

    shared: StreamSharedStep
    results: tuple[PlanNode, ...]


def shared_stream_groups(plans: Sequence[Node], catalog: Catalog) -> list[list[int]]:
    """Group the numbers of plans that share a stream. Other plans form groups of one."""
    groups: dict[int, list[int]] = {}
    for number, plan in enumerate(plans):
        shared = shared_below(plan, catalog)
        # Negative keys cannot collide with the id of an object.
        groups.setdefault(-number - 1 if shared is None else id(shared), []).append(number)
    return list(groups.values())


def lower_stream_set(
    plans: Sequence[Node], names: Sequence[str], catalog: Catalog, time_zone: str
) -> StreamSetSteps:
    """Lower plans over streams that read one SharedExchange and write the tables `names`.

    Raises:
        AnalysisError: A plan cannot be computed on a stream, or a watermark is missing.
    """
    shared = shared_below(plans[0], catalog)
    assert shared is not None and isinstance(shared.input, LocalWindowAggregate)
    local = lower_local(shared.input, catalog, time_zone)
    readers, results = [], []
    for number, (plan, name) in enumerate(zip(plans, names, strict=True)):
        node = _reader_in(plan, catalog)
        assert node is not None and shared_below(plan, catalog) is shared
        readers.append(_reader(node, name))
        top = plan.input if isinstance(plan, Sink) else plan
        results.append(_ResultLowering(node, number, catalog, time_zone).step(top))
    return StreamSetSteps(StreamSharedStep(local, tuple(readers)), tuple(results))


def _reader(node: GlobalWindowAggregate, name: str) -> StreamReader:
    slices, window = node.input, node.window
    assert isinstance(slices, SharedSlices)
    assert window.has_slices and not window.is_calendar
    return StreamReader(
        name,
        window_aggregation(node),
        window.slice_grid,
        slices.columns,
        # windows of a set are emitted once
        choose_slice_store(window, has_allowed_lateness=False),
    )


def _reader_in(plan: Node, catalog: Catalog) -> GlobalWindowAggregate | None:
    """Return the window aggregate that reads shared slices of a stream, or None."""
    windows = plan.find_all(GlobalWindowAggregate)
    readers = (reader for reader in windows if isinstance(reader.input, SharedSlices))
    # Slices of bounded tables are shared as in batch.
    return next((reader for reader in readers if streams_of(reader, catalog)), None)


def shared_below(plan: Node, catalog: Catalog) -> SharedExchange | None:
    """Return the exchange that a plan shares with other INSERTs over its stream, or None."""
    reader = _reader_in(plan, catalog)
    if reader is None:
        return None
    (shared,) = reader.input.inputs
    assert isinstance(shared, SharedExchange)
    return shared


class _ResultLowering(Lowering):
    """Lowering of the nodes above a window aggregate whose windows come from a micro-batch."""

    def __init__(
        self, node: GlobalWindowAggregate, reader: int, catalog: Catalog, zone: str
    ) -> None:
        super().__init__(catalog, zone)
        self._node = node
        self._reader = reader

    def windows(self, node: GlobalWindowAggregate) -> PlanNode:
        """Return the windows of an aggregate: of the micro-batch, if they are the reader's."""
        return BatchWindowsStep(self._reader) if node is self._node else super().windows(node)
