"""The INSERTs of a statement set whose windows one stream computes: to the steps that do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from planner.catalog import Catalog
from planner.lowering.batch import Lowering, window_aggregation
from planner.lowering.stream.steps import lower_local
from planner.nodes.logical import Node, Sink
from planner.nodes.physical import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    SharedExchange,
    SharedSlices,
)
from planner.nodes.slice_levels import FixedWindow, grid_of
from planner.streams.tables import streams_of
from runtime.spec.steps import BatchWindowsStep, Step
from runtime.spec.stream_steps import StreamReader, StreamSharedStep
from runtime.spec.windows import Tumble


@dataclass(frozen=True)
class StreamSetSteps:
    """What one stream computes for several INSERTs.

    Attributes:
        shared: the window operator.
        results: for each INSERT what it makes of the windows of a micro-batch.
    """

    shared: StreamSharedStep
    results: tuple[Step, ...]


def shared_stream_groups(plans: Sequence[Node], catalog: Catalog) -> list[list[int]]:
    """The numbers of the plans that one stream computes together; of others, each by itself."""
    groups: dict[int, list[int]] = {}
    for number, plan in enumerate(plans):
        shared = shared_below(plan, catalog)
        # a number of a plan is never that of an object, which is no plan's number
        groups.setdefault(-number - 1 if shared is None else id(shared), []).append(number)
    return list(groups.values())


def lower_stream_set(
    plans: Sequence[Node], names: Sequence[str], catalog: Catalog, time_zone: str
) -> StreamSetSteps:
    """The steps of plans over streams that read one SharedExchange and write the tables `names`.

    Raises:
        AnalysisError: something in a plan cannot be computed on a stream, or a watermark is
            missing.
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
        results.append(_ResultLowering(node, number).step(top))
    return StreamSetSteps(StreamSharedStep(local, tuple(readers)), tuple(results))


def _reader(node: GlobalWindowAggregate, name: str) -> StreamReader:
    slices, window = node.input, node.window
    assert isinstance(slices, SharedSlices) and isinstance(window, FixedWindow)
    grid = grid_of(window)
    return StreamReader(
        name, window_aggregation(node), Tumble(grid.width_us, grid.offset_us), slices.columns
    )


def _reader_in(plan: Node, catalog: Catalog) -> GlobalWindowAggregate | None:
    """The window aggregate of a plan that reads shared slices of a stream."""
    windows = plan.find_all(GlobalWindowAggregate)
    readers = (each for each in windows if isinstance(each.input, SharedSlices))
    # those of bounded tables are shared as in a batch
    return next((each for each in readers if streams_of(each, catalog)), None)


def shared_below(plan: Node, catalog: Catalog) -> SharedExchange | None:
    """What a plan shares with those of other INSERTs over its stream; None: nothing."""
    reader = _reader_in(plan, catalog)
    if reader is None:
        return None
    (shared,) = reader.input.inputs
    assert isinstance(shared, SharedExchange)
    return shared


class _ResultLowering(Lowering):
    """Lowers what is above a window aggregate, whose windows a micro-batch brings."""

    def __init__(self, node: GlobalWindowAggregate, reader: int) -> None:
        super().__init__({})
        self._node = node
        self._reader = reader

    def _two_phases(self, node: GlobalWindowAggregate) -> exp.Query:
        if node is not self._node:
            return super()._two_phases(node)
        return self.of_windows(node, BatchWindowsStep(self._reader))
