"""The local stage, from rows to partials, by source and mode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeGuard, TypeVar

from runtime.plan.nodes import PlanNode
from runtime.spec.aggregates import Accumulator
from runtime.spec.expressions import Expression, FirstRows
from runtime.spec.scan import ScanSource
from runtime.spec.source import SplitTable
from runtime.spec.stream import StreamSource
from runtime.spec.table import Column
from runtime.spec.text import FileSource
from runtime.windows import Window

# An expression: Spark SQL (str), Expression, or the planner's own type
E = TypeVar("E")


@dataclass(frozen=True)
class PartialColumns(Generic[E]):
    """Partial columns of one accumulator, aggregated from rows.

    Attributes:
        into: Accumulator, with the names of the partial columns. COUNT counts rows in which no
            argument is NULL, or all rows without arguments; moments take the argument as DOUBLE.
        args: Arguments, as Spark SQL or as expressions for the Arrow scan. Order and value for
            `Pick`; `register << 6 | rank` for `CollectRegisters`. For `AllValues` the value; over
            changes the value or its fields, and the number that a row adds to its count.
        condition: FILTER condition; only rows for which it is TRUE are aggregated.
        text: The call as written in the query, for messages.
    """

    into: Accumulator
    args: tuple[E, ...]
    condition: E | None = None
    text: str = field(default="", compare=False, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the partial columns."""
        return self.into.columns


@dataclass(frozen=True)
class LocalSource(PlanNode, Generic[E]):
    """Source of rows, with the expressions to evaluate.

    Attributes:
        keys: Name and expression of each group key.
        partials: Partial columns of the accumulators.
    """

    keys: tuple[tuple[str, E], ...]
    partials: tuple[PartialColumns[E], ...]


@dataclass(frozen=True)
class SqlRows(LocalSource[str]):
    """Rows of Spark; Spark evaluates the expressions.

    Attributes:
        input: Rows; in a stream also with KEEP, SOURCE and WATERMARK.
    """

    input: PlanNode


@dataclass(frozen=True)
class TaskScan(LocalSource[Expression], ABC):
    """Rows that tasks read themselves.

    Attributes:
        time: Expression of the time column; rows where it is NULL are dropped.
        time_zone: Session time zone, for the wall clock on which a `timestamp` is sliced.
        filters: Conditions, joined by AND; a row passes if all are TRUE.
    """

    time: Expression
    time_zone: str
    filters: tuple[Expression, ...]

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """Columns to read."""


@dataclass(frozen=True)
class FileScan(TaskScan):
    """Rows of files that are known when the query is planned.

    Attributes:
        files: Files.
    """

    files: FileSource

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the files, then the partition columns."""
        return (*self.files.columns, *self.files.partition_columns)


@dataclass(frozen=True)
class SplitScan(TaskScan):
    """Rows of a table read split by split: files of a stream, or messages.

    Attributes:
        source: Table, with the columns to read.
        follows_splits: Whether each watermark split has its own watermark.
    """

    source: SplitTable
    follows_splits: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns to read."""
        return self.source.columns


@dataclass(frozen=True)
class GroupingSets:
    """Grouping sets of partials: one copy per set, with NULL for the keys that the set omits.

    Attributes:
        id_column: Name of a BIGINT key, the ID of the set.
        sets: ID and keys of each set.
    """

    id_column: str
    sets: tuple[tuple[int, frozenset[str]], ...]


@dataclass(frozen=True)
class SliceRows(LocalSource[Expression]):
    """Slices stored in files, which tasks read themselves.

    The arguments of an accumulator are its partial columns, as expressions over the columns of the
    files.

    Attributes:
        files: Files with the slices.
        filters: Conditions over their columns, joined by AND.
        tail: Rows that are not in the slices yet.
        sets: Grouping sets applied to all partials, including the tail's.
        are_apart: Whether slices are not merged before the exchange. Merging does not pay if all
            keys are read and the slices are used at their stored width.
    """

    files: ScanSource
    filters: tuple[Expression, ...]
    tail: FileScan | None = None
    sets: GroupingSets | None = None
    are_apart: bool = False


@dataclass(frozen=True)
class SqlPartial:
    """Partial computed by Spark SQL; a struct is split into `fields` (o, v)."""

    name: str
    sql: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalyst:
    """Let Spark SQL aggregate the rows. It computes `partials`; the source declares none.

    Partials are Spark rows, too.
    """

    partials: tuple[SqlPartial, ...]


@dataclass(frozen=True)
class ArrowBuffer:
    """Aggregate rows in the buffer of a Python worker, which sends blobs of partials."""


@dataclass(frozen=True)
class Streaming:
    """Aggregate a micro-batch in Python workers; messages carry partials and watermarks.

    Attributes:
        sources: Sources, indexed by SOURCE.
        time_zone: Time zone of the wall clock for windows of instants.
        is_cascade: Whether the input is another window operator, whose rows carry the watermark.
        late_rows: Side output for late rows of the input; None: they are dropped.
        carries_late_rows: Whether input and output rows have LATE_ROW.
        delay_us: Watermark delay of each counted row. None if the rows carry their watermark.
        first: If the keys are whole rows: the first rows that a window emits; None for all.
        whole_by: With early firing or allowed lateness: keys within which a window that has changed
            is emitted whole, for a Top-N. They are hashed into key groups. None: only changed
            results are emitted.
        by: Keys that are hashed into key groups. None for all keys.
        emits_untimed: Whether rows at UNTIMED are emitted at once.
    """

    sources: tuple[StreamSource, ...]
    time_zone: str
    is_cascade: bool = False
    late_rows: str | None = None
    carries_late_rows: bool = False
    delay_us: int | None = None
    first: FirstRows | None = None
    whole_by: tuple[str, ...] | None = None
    by: tuple[str, ...] | None = None
    emits_untimed: bool = False


Source_co = TypeVar("Source_co", bound=SqlRows | TaskScan | SliceRows, covariant=True)
Mode_co = TypeVar("Mode_co", bound=Catalyst | ArrowBuffer | Streaming, covariant=True)
Source = TypeVar("Source", bound=SqlRows | TaskScan | SliceRows)
Mode = TypeVar("Mode", bound=Catalyst | ArrowBuffer | Streaming)


@dataclass(frozen=True)
class LocalStep(PlanNode, Generic[Source_co, Mode_co]):
    """Rows to partials: keys, `slice_end` as BIGINT microseconds, partial columns.

    For sessions, the slices are their cells, and FIRST_TIME and LAST_TIME are the last columns.
    The window's `row_length`, if it has one, is evaluated like a key, but rows are not grouped by
    it: LAST_TIME is the latest end of the rows.

    Attributes:
        source: Rows and expressions.
        mode: Engine that aggregates, and the form in which partials are sent.
        window: Window.
        time_column: Time column; rows where it is NULL are dropped.
        time_type: `timestamp_ntz` or `timestamp`.
        slice_end: Name of the slice end column.
        label: Operator name for EXPLAIN ANALYZE; empty if it does not count this step.
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
        """Names of the group keys."""
        hidden = self.window.row_length
        return tuple(name for name, _ in self.source.keys if name != hidden)

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """Accumulators computed in Python; none for Catalyst."""
        return tuple(partial.into for partial in self.source.partials)


CatalystStep: TypeAlias = LocalStep[SqlRows, Catalyst]
RowsLocalStep: TypeAlias = LocalStep[SqlRows, ArrowBuffer]
ScanLocalStep: TypeAlias = LocalStep[TaskScan, ArrowBuffer]
FileLocalStep: TypeAlias = LocalStep[FileScan, ArrowBuffer]
SliceLocalStep: TypeAlias = LocalStep[SliceRows, ArrowBuffer]
StreamLocalStep: TypeAlias = LocalStep[SqlRows | SplitScan, Streaming]


def is_local(
    step: object, source: type[Source], mode: type[Mode]
) -> TypeGuard[LocalStep[Source, Mode]]:
    """Return whether a step is a local step with this type of source and mode."""
    if not isinstance(step, LocalStep):
        return False
    return isinstance(step.source, source) and isinstance(step.mode, mode)
