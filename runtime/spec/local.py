"""The local stage: rows to partials, of which source and in which mode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeGuard, TypeVar

from runtime.spec.aggregates import Accumulator
from runtime.spec.expressions import Expression
from runtime.spec.ranks import FirstRows
from runtime.spec.scan import ScanSource
from runtime.spec.source import SplitTable
from runtime.spec.steps import Step
from runtime.spec.stream import StreamSource
from runtime.spec.table import Column
from runtime.spec.windows import Window

# How an expression is written: Spark SQL (str), Expression, or what the planner has
E = TypeVar("E")


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
class LocalSource(Generic[E]):
    """Where the rows come from, and what is evaluated of them.

    Attributes:
        keys: name and expression of each group key.
        partials: the accumulators' partial columns.
    """

    keys: tuple[tuple[str, E], ...]
    partials: tuple[PartialColumns[E], ...]


@dataclass(frozen=True)
class SparkRows(LocalSource[str]):
    """Rows of Spark, which evaluates the expressions.

    Attributes:
        input: the rows; for a stream with KEEP, SOURCE and WATERMARK beside their own columns.
    """

    input: Step


@dataclass(frozen=True)
class TaskScan(LocalSource[Expression]):
    """Rows that tasks read themselves.

    Attributes:
        time: what the time column is made of; rows where it is NULL are dropped.
        time_zone: the session's zone, on whose wall clock a `timestamp` is sliced.
        filters: conditions that must all be TRUE for a row to count.
    """

    time: Expression
    time_zone: str
    filters: tuple[Expression, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read."""
        raise NotImplementedError


@dataclass(frozen=True)
class FileScan(TaskScan):
    """Rows of files that are known when the query is planned.

    Attributes:
        files: the files.
    """

    files: ScanSource

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the files, then those of their directories."""
        return (*self.files.columns, *self.files.partition_columns)


@dataclass(frozen=True)
class SplitScan(TaskScan):
    """Rows of a table that is read split by split: files of a stream, or messages.

    Attributes:
        source: the table, and what is read of it.
        follows_splits: whether each watermark split has a watermark of its own.
    """

    source: SplitTable
    follows_splits: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return self.source.columns


@dataclass(frozen=True)
class GroupingSets:
    """Grouping sets of partials: each once a set, with NULL for the keys that the set leaves out.

    Attributes:
        id_column: the name of a BIGINT key, the id of the set.
        sets: of each set the id, and the keys that it keeps.
    """

    id_column: str
    sets: tuple[tuple[int, frozenset[str]], ...]


@dataclass(frozen=True)
class SliceRows(LocalSource[Expression]):
    """Slices that are kept in files, which tasks read themselves.

    An accumulator's arguments are its partial columns, over the columns of the files.

    Attributes:
        files: the files of slices.
        filters: conditions over their columns of which all must be TRUE.
        tail: rows that are not in them yet.
        sets: what becomes of the partials, those of the tail too.
        are_apart: whether slices of a file stay apart, as all keys are read and slices of the same
            width are wanted, so that it does not pay to merge them before the exchange.
    """

    files: ScanSource
    filters: tuple[Expression, ...]
    tail: FileScan | None = None
    sets: GroupingSets | None = None
    are_apart: bool = False


@dataclass(frozen=True)
class SqlPartial:
    """A partial: `sql` aggregates rows; a struct is taken apart into `fields` (o, v)."""

    name: str
    sql: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalyst:
    """Spark SQL aggregates rows of Spark; it computes `partials`, and those of the source are none.

    Partials are rows of Spark too.
    """

    partials: tuple[SqlPartial, ...]


@dataclass(frozen=True)
class ArrowBuffer:
    """A Python worker aggregates rows in a buffer, and hands on blobs of partials."""


@dataclass(frozen=True)
class Streaming:
    """A Python worker aggregates the rows of a micro-batch; messages carry partials and watermarks.

    Attributes:
        sources: the sources, by the number that SOURCE has.
        time_zone: the zone on whose wall clock the windows of instants are.
        is_cascade: whether the input is another window operator, whose rows carry the watermark.
        late_rows: the table for rows of the input that are too late; None: they are dropped.
        carries_late_rows: whether rows come and go with LATE_ROW.
        delay_us: the watermark of every row that counts is so far before its time; None: it has
            to come with the row.
        first: the keys are rows, of which a window emits the first ones; None: all.
    """

    sources: tuple[StreamSource, ...]
    time_zone: str
    is_cascade: bool = False
    late_rows: str | None = None
    carries_late_rows: bool = False
    delay_us: int | None = None
    first: FirstRows | None = None


Source_co = TypeVar("Source_co", bound=SparkRows | TaskScan | SliceRows, covariant=True)
Mode_co = TypeVar("Mode_co", bound=Catalyst | ArrowBuffer | Streaming, covariant=True)
Source = TypeVar("Source", bound=SparkRows | TaskScan | SliceRows)
Mode = TypeVar("Mode", bound=Catalyst | ArrowBuffer | Streaming)


@dataclass(frozen=True)
class LocalStep(Step, Generic[Source_co, Mode_co]):
    """Rows to partials: keys, `slice_end` as BIGINT microseconds, partial columns.

    For sessions slices are their cells, and FIRST_TIME and LAST_TIME stand last.

    Attributes:
        source: the rows, and the expressions over them.
        mode: what aggregates them, and how partials travel.
        window: the window.
        time_column: the column that windows are on; rows where it is NULL are dropped.
        time_type: `timestamp_ntz` or `timestamp`.
        slice_end: the name of the slice end column.
        label: the operator under which EXPLAIN ANALYZE counts; empty if it does not.
    """

    source: Source_co
    mode: Mode_co
    window: Window
    time_column: str
    time_type: str
    slice_end: str
    label: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the group keys."""
        return tuple(name for name, _ in self.source.keys)

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """What aggregates rows in Python; none for Catalyst."""
        return tuple(partial.into for partial in self.source.partials)


CatalystStep: TypeAlias = LocalStep[SparkRows, Catalyst]
RowsLocalStep: TypeAlias = LocalStep[SparkRows, ArrowBuffer]
ScanLocalStep: TypeAlias = LocalStep[TaskScan, ArrowBuffer]
FileLocalStep: TypeAlias = LocalStep[FileScan, ArrowBuffer]
SliceLocalStep: TypeAlias = LocalStep[SliceRows, ArrowBuffer]
StreamLocalStep: TypeAlias = LocalStep[SparkRows | SplitScan, Streaming]


def is_local(
    step: object, source: type[Source], mode: type[Mode]
) -> TypeGuard[LocalStep[Source, Mode]]:
    """Whether a step is a local step of such a source and in such a mode."""
    if not isinstance(step, LocalStep):
        return False
    return isinstance(step.source, source) and isinstance(step.mode, mode)
