"""The local stage: rows to partials, by whom and of what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.spec.expressions import Expression
from runtime.spec.ranks import FirstRows
from runtime.spec.scan import DEFAULT_BUFFER_BYTES, ScanSource
from runtime.spec.steps import Step
from runtime.spec.stream import StreamSource
from runtime.spec.table import Column, TableSpec
from runtime.spec.windows import Window

if TYPE_CHECKING:
    from runtime.compute.user_aggregates import UserDefinedAggregateFunction


@dataclass(frozen=True)
class PartialColumn:
    """A partial: `sql` aggregates rows; a struct is taken apart into `fields` (o, v)."""

    name: str
    sql: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class LocalStep(Step):
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
class ArrowPartial:
    """The partial columns of one accumulator, aggregated from rows without Spark.

    Attributes:
        function: `count` (rows in which no argument is NULL; all rows without arguments), `sum`,
            `min`, `max`, `bit_and`, `bit_or`, `bit_xor`, `moments` (of the argument as DOUBLE),
            `first`, `last` (arguments: order, value), `set` (the distinct values of the argument,
            or of several as structs, in a list; rows where one is NULL have none), `registers`
            (the argument's distinct HyperLogLog registers, each with its largest rank). They mean
            what an `Accumulator` of that kind means, and its partial columns are what they yield;
            `set` and `registers` are what distinct accumulators read.
        args: the arguments.
        condition: the FILTER; rows where it is not TRUE do not take part.
        columns: the partial columns: one; for `moments` count, mean and M2; for `first` and
            `last` order and value.
    """

    function: str
    args: tuple[Expression, ...]
    condition: Expression | None
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class StreamPartial:
    """The partial columns of one accumulator, aggregated from rows.

    Attributes:
        function: as in `ArrowPartial`, or `percentiles` (summaries of the
            argument's values, see `runtime.compute.values.percentile_summaries`).
        args: Spark SQL of the arguments.
        condition: Spark SQL of the FILTER; rows where it is not TRUE do not take part.
        columns: the names of the partial columns.
        user: the aggregate itself, where `function` is `user`.
        arguments: of `percentiles` the accuracy.
    """

    function: str
    args: tuple[str, ...]
    condition: str | None
    columns: tuple[str, ...]
    user: UserDefinedAggregateFunction | None = None
    arguments: tuple[float, ...] = ()


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
class ScanLocalStep:
    """Rows of files to partials: keys, `slice_end` as BIGINT microseconds, partial columns.

    For sessions slices are their cells, and FIRST_TIME and LAST_TIME stand last.

    Attributes:
        source: the files.
        window: the window.
        time_column: what the query calls the column that windows are on.
        time: what that column is made of.
        time_type: `timestamp_ntz` or `timestamp`; rows with a NULL time are dropped.
        time_zone: the session's zone, on whose wall clock a `timestamp` is sliced.
        filters: conditions of which all must be TRUE for a row to count.
        keys: name and expression of each group key.
        partials: the accumulators' partial columns.
        slice_end: the name of the slice end column.
        buffer_bytes: how much a task's buffer of partials may hold.
        label: the operator under which EXPLAIN ANALYZE counts.
    """

    source: ScanSource
    window: Window
    time_column: str
    time: Expression
    time_type: str
    time_zone: str
    filters: tuple[Expression, ...]
    keys: tuple[tuple[str, Expression], ...]
    partials: tuple[ArrowPartial, ...]
    slice_end: str
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    label: str = ""


@dataclass(frozen=True)
class StreamScan:
    """How the local stage of a stream reads new files itself.

    Attributes:
        step: what is made of their rows.
        table: the table that they are of.
        delay_us: how far the watermark of a row is before its time.
    """

    step: ScanLocalStep
    table: TableSpec
    delay_us: int


@dataclass(frozen=True)
class StreamLocalStep:
    """Rows of a micro-batch to partials and to watermarks.

    Attributes:
        input: rows with KEEP, SOURCE and WATERMARK beside their own columns.
        sources: the sources, by the number that SOURCE has.
        window: the window.
        time_column: the column that windows are computed on.
        time_type: `timestamp_ntz` or `timestamp`.
        keys: name and Spark SQL of each group key.
        partials: the accumulators' partial columns.
        slice_end: the name of the slice end column.
        time_zone: the zone on whose wall clock the windows of instants are.
        is_cascade: whether the input is another window operator, whose rows tell the watermark.
        label: under which name EXPLAIN ANALYZE counts; empty if it does not.
        late_rows: the table for rows of the input that are too late; None: they are dropped.
        carries_late_rows: whether rows come and go with LATE_ROW.
        delay_us: the watermark of every row that is kept is so far before its time; None: it has
            to come with the row.
        first: the keys are rows, of which a window puts out the first ones; None: all.
        scan: how the stage reads files itself, in place of `input`; None: it does not.
    """

    input: Step
    sources: tuple[StreamSource, ...]
    window: Window
    time_column: str
    time_type: str
    keys: tuple[tuple[str, str], ...]
    partials: tuple[StreamPartial, ...]
    slice_end: str
    time_zone: str
    is_cascade: bool = False
    label: str = ""
    late_rows: str | None = None
    carries_late_rows: bool = False
    delay_us: int | None = None
    first: FirstRows | None = None
    scan: StreamScan | None = None
