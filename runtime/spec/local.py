"""The local stage: rows to partials, by whom and of what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from runtime.spec.aggregates import Accumulator
from runtime.spec.expressions import Expression
from runtime.spec.ranks import FirstRows
from runtime.spec.scan import DEFAULT_BUFFER_BYTES, ScanSource
from runtime.spec.steps import Step
from runtime.spec.stream import StreamSource
from runtime.spec.table import TableSpec
from runtime.spec.windows import Window

# How an expression is written: Spark SQL (str), Expression, or what the planner has
E = TypeVar("E")


@dataclass(frozen=True)
class SqlPartial:
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
    partials: tuple[SqlPartial, ...]
    slice_end: str
    label: str = ""


@dataclass(frozen=True)
class PartialColumns(Generic[E]):
    """The partial columns of one accumulator, aggregated from rows.

    Attributes:
        into: what aggregates the rows, and the names of the partial columns. COUNT counts rows in
            which no argument is NULL, all rows without arguments; moments are of the argument as
            DOUBLE.
        args: the arguments: texts of Spark SQL, or expressions that the Arrow scan evaluates. For
            `Pick` order and value; for `CollectRegisters` `register << 6 | rank`.
        condition: the FILTER; rows where it is not TRUE do not take part.
        text: the call as the query has it, for messages.
    """

    into: Accumulator
    args: tuple[E, ...]
    condition: E | None = None
    text: str = field(default="", compare=False, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the partial columns."""
        return self.into.columns


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
    partials: tuple[PartialColumns[str], ...]
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
    partials: tuple[PartialColumns[Expression], ...]
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
    partials: tuple[PartialColumns[str], ...]
    slice_end: str
    time_zone: str
    is_cascade: bool = False
    label: str = ""
    late_rows: str | None = None
    carries_late_rows: bool = False
    delay_us: int | None = None
    first: FirstRows | None = None
    scan: StreamScan | None = None
