"""The exchange of a batch query and the global stage after it."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.expressions import Expression
from runtime.spec.local import (
    CatalystStep,
    RowsLocalStep,
    ScanLocalStep,
    SliceLocalStep,
)
from runtime.spec.steps import MeasuredStep, SqlStep, Step


@dataclass(frozen=True)
class ExchangeStep:
    """Partials as Arrow blobs, one or more per bucket, sent to the task of the bucket.

    The input is a local step, or SQL over one that yields the same columns and more keys. `buckets`
    of keys are spread over `partitions` tasks; None: from Spark's shuffle partitions.
    """

    input: CatalystStep | ScanLocalStep | SliceLocalStep | RowsLocalStep | SqlStep | MeasuredStep
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
class SharedExchangeStep:
    """Partials that several window aggregations read, as Arrow blobs, on one or more levels.

    Attributes:
        input: Local stage on the slices of the first level, or SQL over one as in `ExchangeStep`.
        keys: Group keys, which determine the bucket.
        slice_end: Name of the slice end column.
        accumulators: Accumulators; lists of distinct values are concatenated.
        levels: Slices; every level comes after its source.
        partitions: Number of global-stage tasks, as in `ExchangeStep`.
        buckets: Number of buckets, as in `ExchangeStep`.
    """

    input: CatalystStep | ScanLocalStep | SliceLocalStep | SqlStep | MeasuredStep
    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    levels: tuple[SliceLevel, ...]
    label: str = ""
    partitions: int | None = None
    buckets: int | None = None


@dataclass(frozen=True)
class SharedSlicesStep:
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
class GlobalStep(Step):
    """Merge partials of slices to windows, bucket by bucket."""

    input: ExchangeStep | SharedSlicesStep
    aggregation: WindowAggregation
    label: str = ""


@dataclass(frozen=True)
class WindowProjection:
    """Projection and filter of merged windows, evaluated with Arrow.

    Attributes:
        columns: Name and expression of each column, over the columns of `GlobalStep`.
        filters: Conditions, joined by AND.
        window_time: Name of an additional column, the window end minus a millisecond; None if
            unused.
    """

    columns: tuple[tuple[str, Expression], ...]
    filters: tuple[Expression, ...] = ()
    window_time: str | None = None
