"""Steps over streams: stateful operators, and operators on complete windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from runtime.plan.arrow_rows import JoinedRows, RankedRows
from runtime.plan.local import LocalStep, SqlRows, Streaming, StreamLocalStep
from runtime.plan.nodes import PlanNode
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.expressions import FirstRows
from runtime.spec.filling import GapFilling, VersionJoining
from runtime.spec.source import SplitTable
from runtime.spec.stream import StreamSource
from runtime.windows.tumble import Tumble


class SliceStoreKind(Enum):
    """How a stream stores the slices of a window aggregation. Results do not depend on it."""

    PLAIN = "plain"  # a window merges all its slices when it fires
    RUNNING_AGGREGATES = "running aggregates"  # HOP: a window merges three partials per key
    RUNNING_TOTALS = "running totals"  # CUMULATE: a window merges a total and the steps after it


class EmissionMode(Enum):
    """How often a window operator emits a result."""

    ONCE = "once"
    AGAIN = "again"  # with changes, when the settings of early firing and lateness say
    AT_ONCE = "at once"  # with the changes of each micro-batch, for another operator


@dataclass(frozen=True)
class StreamWindowStep(PlanNode):
    """The window operator: merges partials into state, emits windows as the watermark passes them.

    Its rows are keys, window start and end, merged columns, and KEEP, SOURCE, WATERMARK. In each
    micro-batch, one row per key group with KEEP = FALSE carries the operator's watermark.

    Attributes:
        input: Local stage.
        aggregation: Aggregation of the partials.
        number: Number of the operator in its query, from 0 in data flow order.
        label: Name for EXPLAIN ANALYZE; empty if it does not count this step.
        store: How its slices are stored. SESSION has none.
        emission: How often it emits a result. More than once, its rows have ROW_KIND.
        numbers_updates: Whether the kinds of updates have a number, for a `SettledKindsStep` above.
    """

    input: StreamLocalStep
    aggregation: WindowAggregation
    number: int
    label: str = ""
    store: SliceStoreKind = SliceStoreKind.PLAIN
    emission: EmissionMode = EmissionMode.ONCE
    numbers_updates: bool = False


@dataclass(frozen=True, kw_only=True)
class StreamFillStep(StreamWindowStep):
    """The operator of FILL: adds windows without rows to windows, as the watermark passes them.

    Attributes:
        filling: Values of the partials in added windows.
    """

    filling: GapFilling


@dataclass(frozen=True, kw_only=True)
class StreamVersionStep(StreamWindowStep):
    """The operator of a temporal join, for rows that the watermark has passed.

    Attributes:
        versions: Columns of rows and versions.
    """

    versions: VersionJoining


@dataclass(frozen=True, kw_only=True)
class StreamRankStep(StreamWindowStep):
    """The operator of the first rows of each key, over all time.

    Its keys are the columns of rows. If its windows close, a row is emitted once, when the
    watermark has passed it. Otherwise the first rows so far are emitted, with their changes.

    Attributes:
        first: Keys, order and last rank.
        first_rank: First rank to emit. 1 if windows close.
        ttl_us: If windows close: a row is first again if its window ends at least this long after
            the one of the last emitted row of its key. None means never.
    """

    first: FirstRows
    first_rank: int
    ttl_us: int | None = None


@dataclass(frozen=True)
class SettledKindsStep(PlanNode):
    """Changes that have passed filters: an update with one row left is a deletion or an insertion.

    Attributes:
        input: Rows with the ROW_KIND of operators that number updates.
    """

    input: PlanNode


@dataclass(frozen=True)
class SplitRowsStep(PlanNode):
    """Rows of a stream that tasks read for Spark, with WATERMARK_LIMIT and SPLIT_NUMBER.

    Attributes:
        source: Table, with all its physical columns. Its computed columns are added to the rows.
        number: Number of the step among the steps of its query that read splits.
    """

    source: SplitTable
    number: int


@dataclass(frozen=True)
class WatermarkedRowsStep(PlanNode):
    """Rows of a stream whose watermark Spark keeps, for CURRENT_WATERMARK.

    Attributes:
        input: Rows.
        watermark_us: Spark SQL for the watermark of a row, BIGINT microseconds. The stream's
            watermark is the highest one of the previous micro-batches.
        name: Table name, for EXPLAIN.
    """

    input: PlanNode
    watermark_us: str
    name: str


@dataclass(frozen=True)
class StreamReader:
    """Window aggregation that reads shared slices.

    Attributes:
        name: Table that receives its windows, for messages.
        aggregation: TUMBLE, HOP or CUMULATE over slices that are finer than its own.
        slices: Widest slices of one width that divide its own; None for a single reader.
        columns: Keys, slice end and partial columns, each as a pair: name among the shared columns,
            name in `aggregation`.
        store: How its slices are stored, in addition to those that it shares.
    """

    name: str
    aggregation: WindowAggregation
    slices: Tumble | None
    columns: tuple[tuple[str, str], ...]
    store: SliceStoreKind = SliceStoreKind.PLAIN


@dataclass(frozen=True)
class StreamSharedStep(PlanNode):
    """Window operator that stores its slices once for several window aggregations.

    Attributes:
        input: Local stage with the partials of all readers, on common slices of theirs.
        readers: Aggregations.
    """

    input: StreamLocalStep
    readers: tuple[StreamReader, ...]


@dataclass(frozen=True)
class StreamRegroupStep(PlanNode):
    """Window results regrouped by columns that identify their windows.

    All results of a window arrive in one micro-batch, so the step is stateless. Its rows are the
    keys, the merged columns, and KEEP, SOURCE, WATERMARK; rows with KEEP = FALSE pass through.

    Attributes:
        input: Rows with the window columns among the keys; its own window holds all rows.
        aggregation: Aggregation of the results.
        label: Name for EXPLAIN ANALYZE; empty if it does not count this step.
    """

    input: LocalStep[SqlRows, Streaming]
    aggregation: WindowAggregation
    label: str = ""


@dataclass(frozen=True)
class StreamRowsStep(PlanNode):
    """Rows for a window operator that processes them one by one.

    Attributes:
        input: Rows with KEEP, SOURCE and WATERMARK in addition to their own columns.
        sources: Sources, indexed by SOURCE.
        time: Name and type of the time column; None for processing time.
        time_zone: Time zone of the wall clock for windows of instants.
        is_cascade: Whether the input is another window operator, whose rows carry the watermark.
    """

    input: PlanNode
    sources: tuple[StreamSource, ...]
    time: tuple[str, str] | None
    time_zone: str
    is_cascade: bool = False


# Rows with KEEP, SOURCE and WATERMARK; those with KEEP = FALSE pass through, a join's from its left
# side
WholeWindowsStep: TypeAlias = StreamRegroupStep | RankedRows | JoinedRows
StreamStep: TypeAlias = StreamWindowStep | WholeWindowsStep


def watermarked_rows(plan: PlanNode) -> Iterator[WatermarkedRowsStep]:
    """Yield the streams of a plan that CURRENT_WATERMARK refers to."""
    return (node for node in plan.walk() if isinstance(node, WatermarkedRowsStep))
