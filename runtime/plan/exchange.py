"""The exchange of a batch query and the global stage after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from runtime.plan.local import (
    CatalystStep,
    GroupingSets,
    RowsLocalStep,
    ScanLocalStep,
    SliceLocalStep,
)
from runtime.plan.nodes import MeasuredStep, PlanNode, SqlStep
from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.expressions import Expression


@dataclass(frozen=True)
class ExpandedPartials(PlanNode):
    """Partials once per grouping set.

    Attributes:
        input: Local stage.
        sets: Grouping sets.
    """

    input: ScanLocalStep
    sets: GroupingSets


# A local stage, or Spark SQL over one that yields the same columns and more keys
Partials: TypeAlias = (
    CatalystStep
    | ScanLocalStep
    | SliceLocalStep
    | RowsLocalStep
    | ExpandedPartials
    | SqlStep
    | MeasuredStep
)


@dataclass(frozen=True)
class ExchangeStep(PlanNode):
    """Partials as Arrow blobs, one or more per bucket, sent to the task of the bucket.

    `buckets` of keys are spread over `partitions` tasks; None: from Spark's shuffle partitions. One
    process needs no exchange.
    """

    input: Partials
    keys: tuple[str, ...]
    label: str = ""
    partitions: int | None = None
    buckets: int | None = None


@dataclass(frozen=True)
class SliceLevel:
    """Slices [k*width + offset, k*width + offset + width) that shared partials are rolled up to.

    Attributes:
        width_us: Width of a slice.
        offset_us: Start of the slices, 0 <= offset < width.
        source: Index of the finer level that this one is rolled up from. None for the first level,
            the slices of the local stage.
        is_read: Whether an aggregation reads this level, so that it goes through the exchange.
        columns: Partial columns that the aggregations read.
    """

    width_us: int
    offset_us: int
    source: int | None = None
    is_read: bool = True
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class SharedExchangeStep(PlanNode):
    """Partials that several window aggregations read, as Arrow blobs, on one or more levels.

    Attributes:
        input: Partials on the slices of the first level.
        keys: Group keys, which determine the bucket.
        slice_end: Name of the slice end column.
        accumulators: Accumulators; lists of distinct values are concatenated.
        levels: Slices; every level comes after its source.
        partitions: Number of global-stage tasks, as in `ExchangeStep`.
        buckets: Number of buckets, as in `ExchangeStep`.
    """

    input: Partials
    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    levels: tuple[SliceLevel, ...]
    label: str = ""
    partitions: int | None = None
    buckets: int | None = None


@dataclass(frozen=True)
class SharedSlicesStep(PlanNode):
    """Part of shared partials that one window aggregation reads.

    Attributes:
        input: Shared partials.
        level: Index of the level to read.
        columns: Pairs of a shared column and its name in the aggregation.
    """

    input: SharedExchangeStep
    level: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MergedWindows(PlanNode):
    """Windows merged from partials. A GROUP BY without windows is a single window.

    Attributes:
        input: Partials.
        aggregation: Aggregation that merges them.
        label: Operator name for EXPLAIN ANALYZE; empty if it does not count this node.
        window_time: Name of an additional column, the window end minus a millisecond; None if
            unused. Spark computes it from the window end.
        is_total: Whether there is one row even without input rows, as in a SELECT without GROUP BY.
        has_windows: Whether the windows are in the query.
    """

    input: ExchangeStep | SharedSlicesStep
    aggregation: WindowAggregation
    label: str = ""
    window_time: str | None = None
    is_total: bool = False
    has_windows: bool = True

    @property
    def partials(self) -> Partials:
        """The partials before the exchange."""
        below = self.input
        return below.input.input if isinstance(below, SharedSlicesStep) else below.input


@dataclass(frozen=True)
class WindowProjection:
    """Projection and filter of merged windows, evaluated with Arrow.

    Attributes:
        columns: Name and expression of each column, over the columns of `MergedWindows`.
        filters: Conditions, joined by AND.
        window_time: Name of an additional column, the window end minus a millisecond; None if
            unused.
    """

    columns: tuple[tuple[str, Expression], ...]
    filters: tuple[Expression, ...] = ()
    window_time: str | None = None
