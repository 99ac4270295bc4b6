"""What runs over streams: operators with state, and what follows whole windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from runtime.spec.aggregates import WindowAggregation
from runtime.spec.expressions import Expression
from runtime.spec.local import LocalStep, SparkRows, Streaming, StreamLocalStep
from runtime.spec.ranks import RankOrder
from runtime.spec.steps import Step
from runtime.spec.stream import StreamSource
from runtime.spec.windows import Tumble


@dataclass(frozen=True)
class StreamWindowStep(Step):
    """The window operator: partials into state, windows out as the watermark passes their ends.

    Its rows are keys, window start and end, merged columns, and KEEP, SOURCE, WATERMARK; with
    KEEP = FALSE one row a key group and micro-batch with the operator's watermark.

    Attributes:
        input: the local stage.
        aggregation: what is merged.
        number: the number of the operator in its query, from 0 in the order of the data's way.
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
        slices: the widest slices of one width that its own are made of; None of the only one.
        columns: keys, slice end and partial columns: the name of each among the shared ones, and
            the one that `aggregation` gives it.
    """

    name: str
    aggregation: WindowAggregation
    slices: Tumble | None
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
class StreamRegroupStep(Step):
    """Results of windows grouped once more, by columns that identify their windows.

    All results of a window come in one micro-batch, so that nothing is kept. Its rows are the keys,
    the merged columns, and KEEP, SOURCE, WATERMARK; rows with KEEP = FALSE pass.

    Attributes:
        input: the rows, with the window columns among the keys; its own window holds all rows.
        aggregation: what is merged.
        label: under which name EXPLAIN ANALYZE counts; empty if it does not.
    """

    input: LocalStep[SparkRows, Streaming]
    aggregation: WindowAggregation
    label: str = ""


@dataclass(frozen=True)
class StreamRankStep(Step):
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
class StreamJoinStep(Step):
    """Results of equal windows joined; both sides emit a window in the same micro-batch.

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
        time: name and type of the column that windows are on; None: processing time.
        time_zone: the zone on whose wall clock the windows of instants are.
        is_cascade: whether the input is another window operator, whose rows carry the watermark.
    """

    input: Step
    sources: tuple[StreamSource, ...]
    time: tuple[str, str] | None
    time_zone: str
    is_cascade: bool = False


StreamStep: TypeAlias = StreamWindowStep | StreamRegroupStep | StreamRankStep | StreamJoinStep
