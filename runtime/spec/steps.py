"""What runs, step by step. A step's inputs are steps; the last one is the query's result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.scan import ScanLocalStep
from runtime.spec.windows import Window

if TYPE_CHECKING:
    from runtime.spec.stream import StreamPartial, StreamStep


@dataclass(frozen=True)
class SqlStep:
    """Spark SQL over other steps. `inputs` maps names in the text to the steps they stand for."""

    sql: str
    inputs: tuple[tuple[str, Step], ...] = ()


@dataclass(frozen=True)
class ExpandStep:
    """Each row once for every window it belongs to; rows with a NULL time are dropped.

    Three columns are added under the given names: start and end as TIMESTAMP_NTZ, time as
    `time_type`.
    """

    input: Step
    window: Window
    time_column: str
    time_type: str
    window_start: str
    window_end: str
    window_time: str


@dataclass(frozen=True)
class PartialColumn:
    """A partial: `sql` aggregates rows; a struct is taken apart into `fields` (o, v)."""

    name: str
    sql: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class LocalStep:
    """Rows to partials: keys, `slice_end` as BIGINT microseconds, partial columns.

    For sessions slices are their cells, and FIRST_TIME and LAST_TIME stand last.
    Here and below, `label` is the operator under which EXPLAIN ANALYZE counts.
    """

    input: Step
    window: Window
    time_column: str
    time_type: str
    keys: tuple[tuple[str, str], ...]
    partials: tuple[PartialColumn, ...]
    slice_end: str
    label: str = ""


@dataclass(frozen=True)
class ArrowLocalStep:
    """Rows to partials in Python, where Spark SQL cannot pre-aggregate them.

    Attributes:
        input: the rows.
        window: the window.
        time_column: the column that windows are computed on; rows where it is NULL are dropped.
        time_type: `timestamp_ntz` or `timestamp`.
        keys: name and Spark SQL of each group key.
        partials: the accumulators' partial columns.
        slice_end: the name of the slice end column.
        label: the name under which EXPLAIN ANALYZE counts.
    """

    input: Step
    window: Window
    time_column: str
    time_type: str
    keys: tuple[tuple[str, str], ...]
    partials: tuple[StreamPartial, ...]
    slice_end: str
    label: str = ""


@dataclass(frozen=True)
class ExchangeStep:
    """Partials as Arrow blobs, one or more a bucket of keys, brought to the bucket's task.

    The partials are those of a local step, or of SQL over one that yields the same columns and more
    keys. `buckets` of keys are spread over `partitions` tasks; None: from Spark's shuffle
    partitions.
    """

    input: LocalStep | ScanLocalStep | ArrowLocalStep | SqlStep | MeasuredStep
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

    input: LocalStep | ScanLocalStep | SqlStep | MeasuredStep
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
class GlobalStep:
    """Partials of slices to windows, bucket by bucket."""

    input: ExchangeStep | SharedSlicesStep
    aggregation: WindowAggregation
    label: str = ""


@dataclass(frozen=True)
class MeasuredStep:
    """A step whose rows EXPLAIN ANALYZE counts, under the name `label`."""

    input: Step
    label: str


@dataclass(frozen=True)
class BatchWindowsStep:
    """What a micro-batch brought of the windows of one reader, for what is computed of them.

    Its rows are keys, window start and end, and merged columns.
    """

    reader: int


Step: TypeAlias = (
    "SqlStep | ExpandStep | LocalStep | GlobalStep | MeasuredStep | BatchWindowsStep | StreamStep"
)
