"""The exchange of a batch query, and the global stage behind it."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.expressions import Expression
from runtime.spec.local import CatalystStep, RowsLocalStep, ScanLocalStep, SliceLocalStep
from runtime.spec.ranks import RankOrder
from runtime.spec.steps import MeasuredStep, SqlStep, Step


@dataclass(frozen=True)
class ExchangeStep:
    """Partials as Arrow blobs, one or more a bucket of keys, brought to the bucket's task.

    The partials are those of a local step, or of SQL over one that yields the same columns and more
    keys. `buckets` of keys are spread over `partitions` tasks; None: from Spark's shuffle
    partitions.
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
        width_us: the width of a slice.
        offset_us: where slices begin, 0 <= offset < width.
        source: the position of the finer level that this one is rolled up from; None for the
            first level, the slices of the local stage.
        is_read: whether windows are put together from this level, so that it travels.
        columns: the partial columns that these windows read.
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
        input: the local stage on the slices of the first level, or SQL over one as in
            `ExchangeStep`.
        keys: the group keys, which decide on the bucket.
        slice_end: the name of the slice end column.
        accumulators: how partials merge; of those that are distinct, lists are joined.
        levels: the slices, every level behind its source.
        partitions: tasks of the global stages, and
        buckets: of keys among them; as in `ExchangeStep`.
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
    """The part of shared partials that one window aggregation reads.

    Attributes:
        input: the shared partials.
        level: the position of the level that is read.
        columns: name of each column read, and what the aggregation calls it.
    """

    input: SharedExchangeStep
    level: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GlobalStep(Step):
    """Partials of slices to windows, bucket by bucket."""

    input: ExchangeStep | SharedSlicesStep
    aggregation: WindowAggregation
    label: str = ""


@dataclass(frozen=True)
class WindowProjection:
    """The rows of a query, made of merged windows with Arrow.

    Attributes:
        columns: name and expression of each column, over those that `GlobalStep` yields.
        filters: conditions of which all must be true.
        window_time: the name of one column more, the end less a millisecond; None: it is not read.
    """

    columns: tuple[tuple[str, Expression], ...]
    filters: tuple[Expression, ...] = ()
    window_time: str | None = None


@dataclass(frozen=True)
class RankedRows:
    """Rows with their ranks in windows, and what is made of them.

    Attributes:
        function: ROW_NUMBER, RANK or DENSE_RANK.
        ranks: the first and the last rank that is kept.
        by: the columns that make the groups.
        order: what ranks rows.
        column: the name of the rank.
        projection: what is made of the rows that are kept.
    """

    function: str
    ranks: tuple[int, int]
    by: tuple[str, ...]
    order: tuple[RankOrder, ...]
    column: str
    projection: WindowProjection


@dataclass(frozen=True)
class RowOrder:
    """ORDER BY, LIMIT and OFFSET of a query's rows.

    Attributes:
        order: what orders them; empty: they come as they are.
        limit: the most rows; None: all.
        offset: how many are left out at the start.
        hidden: columns at the end that only order, and are no result.
    """

    order: tuple[RankOrder, ...]
    limit: int | None = None
    offset: int = 0
    hidden: int = 0


@dataclass(frozen=True)
class InProcessStep:
    """Rows of windows that are put together in this process from kept slices, without Spark.

    Attributes:
        input: the slices, and what is read beside them.
        aggregation: how they are merged.
        projection: what is made of the windows.
        ranked: which of these rows are kept by their ranks; None: all.
        ordered: in which order rows are handed out; None: in any.
    """

    input: SliceLocalStep
    aggregation: WindowAggregation
    projection: WindowProjection
    ranked: RankedRows | None = None
    ordered: RowOrder | None = None
