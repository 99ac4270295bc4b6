"""Lowering of window aggregates in two phases: local stage, exchange, global stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from planner.nodes.aggregate_plans import merge_windows
from planner.nodes.logical import Expand, Node
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    ScanLocalWindowAggregate,
    SharedExchange,
    SharedSlices,
    SliceScan,
)
from runtime.plan.exchange import (
    ExchangeStep,
    MergedWindows,
    Partials,
    SharedExchangeStep,
    SharedSlicesStep,
)
from runtime.plan.local import (
    ArrowBuffer,
    GroupingSets,
    LocalStep,
    SliceRows,
    is_local,
)
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.windows import Window

# Names inside a plan. Columns of tables and queries never begin with a dollar sign.
START, END, TIME = "$window_start", "$window_end", "$window_time"

# Window, name and type of the time column, name of the slice end column, label
Slicing = tuple[Window, str, str, str, str]


class WindowsLowering(ABC):
    """Lowering of the window aggregates of one plan."""

    def __init__(self) -> None:
        self._shared: dict[int, SharedExchangeStep] = {}

    def label(self, node: Node, position: int = 0) -> str:
        """Return the label of the node's operator at `position` from the top.

        Empty if nothing is counted.
        """
        return ""

    def merged_windows(self, node: GlobalWindowAggregate) -> MergedWindows:
        """Return the windows of an aggregate."""
        return MergedWindows(self._exchange(node.input), window_aggregation(node), self.label(node))

    @abstractmethod
    def rows_stage(self, node: LocalWindowAggregate, slicing: Slicing) -> Partials:
        """Return the local stage over the rows of a node."""

    @abstractmethod
    def scan_stage(self, node: ScanLocalWindowAggregate, slicing: Slicing) -> Partials:
        """Return the local stage over rows that tasks read themselves."""

    @abstractmethod
    def expanded(self, node: Expand, partials: Partials) -> Partials:
        """Return partials once per grouping set."""

    def _exchange(self, exchange: Node) -> ExchangeStep | SharedSlicesStep:
        if isinstance(exchange, SharedSlices):
            shared = exchange.input
            assert isinstance(shared, SharedExchange)
            # Lower it once for all readers.
            if id(shared) not in self._shared:
                self._shared[id(shared)] = self._shared_exchange(shared)
            return SharedSlicesStep(self._shared[id(shared)], exchange.level, exchange.columns)
        assert isinstance(exchange, Exchange)
        return ExchangeStep(
            self._partials(exchange.input),
            exchange.keys,
            self.label(exchange),
            exchange.partitions,
            exchange.buckets,
        )

    def _shared_exchange(self, shared: SharedExchange) -> SharedExchangeStep:
        return SharedExchangeStep(
            self._partials(shared.input),
            shared.keys,
            shared.slice_end,
            shared.accumulators,
            shared.levels,
            self.label(shared),
            shared.partitions,
            shared.buckets,
        )

    def _partials(self, node: Node) -> Partials:
        if isinstance(node, Expand):
            partials = self._partials(node.input)
            if is_local(partials, SliceRows, ArrowBuffer):
                return replace(partials, source=replace(partials.source, sets=sets_of(node)))
            return self.expanded(node, partials)
        assert isinstance(node, LocalWindowAggregate)
        slicing = (
            node.window,
            node.time_column,
            node.time_type,
            node.slice_end,
            self.label(node),
        )
        if isinstance(node, ScanLocalWindowAggregate):
            return self.scan_stage(node, slicing)
        if isinstance(node, SliceScan):
            return LocalStep(node.rows, ArrowBuffer(), *slicing)
        return self.rows_stage(node, slicing)


def sets_of(node: Expand) -> GroupingSets:
    """Return the grouping sets of a node."""
    return GroupingSets(node.id_column, tuple(zip(node.ids, node.key_names, strict=True)))


def window_aggregation(node: GlobalWindowAggregate) -> WindowAggregation:
    """Return the merge of a window aggregate, with the plan's names for the window bounds."""
    return merge_windows(node.plans, node.window, node.keys, node.slice_end, (START, END))
