"""What the planner hands to the runtime for streams, beside what `runtime.spec` has.

Rows of a stream carry, beside their own columns, the watermark in band, under the names below. So
a row that a filter drops, and a row that only tells how far an operator has got, still tells it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from runtime.spec.aggregates import WindowAggregation
from runtime.spec.expressions import Expression
from runtime.spec.scan import StreamScan
from runtime.spec.steps import Step
from runtime.spec.windows import Tumble, Window

if TYPE_CHECKING:
    from runtime.compute.user_aggregates import Aggregate

# FALSE in a row that brings nothing but its watermark; all its other columns may be NULL.
KEEP = "$keep"
# INT: the source whose watermark a row has.
SOURCE = "$source"
# BIGINT microseconds: the row's watermark on the clock of its source; NULL where there is none.
WATERMARK = "$watermark"
# BIGINT microseconds on the windows' clock; NULL in a row without a time.
TIME = "$time_us"
# BIGINT microseconds since 1970 in UTC: when the micro-batch began, where an operator asks for it.
CLOCK = "$clock_us"
# STRUCT: the row as its table has it. Below a window operator in all rows of a table with
# `late-rows` that are kept; above it in those that were too late, with KEEP = FALSE, where
# WATERMARK is the one that they missed. These pass whatever follows.
LATE_ROW = "$late_row"
# The kind of change of a result that can be put out again: +I, -U, +U.
ROW_KIND = "$row_kind"


@dataclass(frozen=True)
class StreamSource:
    """A source of watermarks.

    Attributes:
        name: the table, for messages.
        time_type: `timestamp`, if its watermarks are instants; `timestamp_ntz`, if they are on the
            wall clock; `proctime`, if its rows' time is the clock's when they are processed.
    """

    name: str
    time_type: str


@dataclass(frozen=True)
class StreamPartial:
    """The partial columns of one accumulator, aggregated from rows.

    Attributes:
        function: as in `runtime.spec.scan.ArrowPartial`, or `percentiles` (summaries of the
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
    user: Aggregate | None = None
    arguments: tuple[float, ...] = ()


@dataclass(frozen=True)
class RankOrder:
    """A column that ranks rows."""

    column: str
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class FirstRows:
    """Which rows of a window are wanted of those that are kept: the first ones.

    Attributes:
        by: the columns in which rows are ranked, beside their windows; key groups are theirs, so
            that rows that are ranked together come out together.
        order: what ranks them.
        function: ROW_NUMBER, RANK or DENSE_RANK.
        last: the last rank that is wanted, from 1.
    """

    by: tuple[str, ...]
    order: tuple[RankOrder, ...]
    function: str
    last: int


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


@dataclass(frozen=True)
class StreamWindowStep:
    """The window operator: partials into state, windows out as the watermark passes their ends.

    Its rows are keys, window start and end, merged columns, and KEEP, SOURCE, WATERMARK; with
    KEEP = FALSE one row a key group and micro-batch that tells the operator's watermark.

    Attributes:
        input: the local stage.
        aggregation: what is merged.
        number: tells the operators of a query apart, from 0 in the order of the data's way.
        label: under which name EXPLAIN ANALYZE counts; empty if it does not.
    """

    input: StreamLocalStep
    aggregation: WindowAggregation
    number: int
    label: str = ""


@dataclass(frozen=True)
class StreamReader:
    """One of the window aggregations that read shared slices.

    Attributes:
        name: what it is for, in messages: the table that its windows go to.
        aggregation: TUMBLE, HOP or CUMULATE over slices that are finer than its own.
        slices: the widest slices of one width that its own are made of.
        columns: keys, slice end and partial columns: the name of each among the shared ones, and
            the one that `aggregation` gives it.
    """

    name: str
    aggregation: WindowAggregation
    slices: Tumble
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StreamSharedStep:
    """A window operator that keeps its slices once for several window aggregations.

    Attributes:
        input: the local stage, on the slices that those of all readers are made of, with the
            partials of all.
        readers: the aggregations.
    """

    input: StreamLocalStep
    readers: tuple[StreamReader, ...]


@dataclass(frozen=True)
class StreamRegroupStep:
    """Results of windows grouped once more, by columns that tell their windows apart.

    All results of a window come in one micro-batch, so that nothing is kept. Its rows are the keys,
    the merged columns, and KEEP, SOURCE, WATERMARK; rows with KEEP = FALSE pass.

    Attributes:
        input: the rows, with the window columns among the keys; its own window holds all rows.
        aggregation: what is merged.
        label: under which name EXPLAIN ANALYZE counts; empty if it does not.
    """

    input: StreamLocalStep
    aggregation: WindowAggregation
    label: str = ""


@dataclass(frozen=True)
class StreamRankStep:
    """Results of windows ranked in each window and key; the input's columns and the rank.

    Attributes:
        input: rows with KEEP, SOURCE and WATERMARK; rows with KEEP = FALSE pass.
        by: the window columns and keys in which rows are ranked.
        order: what ranks them.
        function: ROW_NUMBER, RANK or DENSE_RANK.
        first: the first rank that is kept, from 1.
        last: the last one.
        rank_column: the name of the rank, INT.
        label: under which name EXPLAIN ANALYZE counts; empty if it does not.
        is_spread: whether the rows of a window and key are in one task as they come.
    """

    input: Step
    by: tuple[str, ...]
    order: tuple[RankOrder, ...]
    function: str
    first: int
    last: int
    rank_column: str
    label: str = ""
    is_spread: bool = False


@dataclass(frozen=True)
class StreamJoinStep:
    """Results of equal windows joined; both sides put out a window in the same micro-batch.

    Yields the columns of the left, then, but for LeftSemi and LeftAnti, those of the right, then
    KEEP, SOURCE, WATERMARK; rows with KEEP = FALSE of the left pass.

    Attributes:
        left: rows with KEEP, SOURCE and WATERMARK.
        right: the same of the other side; the names of the two are disjoint but for these.
        join_type: Inner, LeftOuter, RightOuter, FullOuter, LeftSemi, LeftAnti.
        window_keys: pairs of equal window columns, left and right.
        keys: pairs of other columns that must be equal.
        condition: what must be true of a pair beside that, over the columns of both sides.
        label: under which name EXPLAIN ANALYZE counts; empty if it does not.
    """

    left: Step
    right: Step
    join_type: str
    window_keys: tuple[tuple[str, str], ...]
    keys: tuple[tuple[str, str], ...]
    condition: Expression | None = None
    label: str = ""


@dataclass(frozen=True)
class StreamRowsStep:
    """Rows for a window operator that sees them one by one.

    Attributes:
        input: rows with KEEP, SOURCE and WATERMARK beside their own columns.
        sources: the sources, by the number that SOURCE has.
        time: name and type of the column that windows are on; None: they are on the clock.
        time_zone: the zone on whose wall clock the windows of instants are.
        is_cascade: whether the input is another window operator, whose rows tell the watermark.
    """

    input: Step
    sources: tuple[StreamSource, ...]
    time: tuple[str, str] | None
    time_zone: str
    is_cascade: bool = False


StreamStep: TypeAlias = StreamWindowStep | StreamRegroupStep | StreamRankStep | StreamJoinStep
