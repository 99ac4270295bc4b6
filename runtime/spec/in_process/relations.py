"""Relations computed in this process, without Spark.

A tree of `Rows`: leaves read or name rows, other nodes compute rows from their inputs. Expressions
refer to the columns of the input by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.exchange import SliceLevel, WindowProjection
from runtime.spec.expressions import Expression, RankOrder, column_refs
from runtime.spec.in_process.text import TextSource
from runtime.spec.local import (
    ArrowBuffer,
    FileLocalStep,
    GroupingSets,
    LocalStep,
    SliceLocalStep,
    TaskScan,
)
from runtime.spec.scan import ScanSource
from runtime.spec.source import SplitTable
from runtime.spec.steps import GapFilling
from runtime.spec.table import Column
from runtime.spec.windows import Window


@dataclass(frozen=True)
class Rows:
    """Base class of relations."""

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relations below."""
        return ()

    def walk(self) -> Iterator[Rows]:
        """Yield this relation and all below it."""
        yield self
        for below in self.inputs:
            yield from below.walk()


@dataclass(frozen=True)
class InlineRows(Rows):
    """Rows whose values are in the query.

    Attributes:
        columns: Columns, at least one.
        rows: Expressions without columns, one per column and row, of the columns' types.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True)
class FileRows(Rows):
    """Rows of files.

    Attributes:
        files: Files, with at least one column to read.
        filters: Conditions, joined by AND. Row groups without a row that satisfies them are
            skipped.
    """

    files: ScanSource
    filters: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class TextRows(Rows):
    """Rows of text files.

    Attributes:
        files: Files and how to read them.
        filters: Conditions, joined by AND. Only rows that satisfy them are read.
    """

    files: TextSource
    filters: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class DatabaseRows(Rows):
    """Rows of a table that its connector reads in this process.

    Attributes:
        source: Table, with at least one column to read.
    """

    source: SplitTable


@dataclass(frozen=True)
class GivenRows(Rows):
    """Rows that the caller passes under a name, such as the rows of a simulated micro-batch.

    Attributes:
        name: Name of the rows.
        columns: Columns of the rows. Empty to use the columns of `of`.
        of: Relation with the same columns, or None.
        clock: Column with the processing time of the micro-batch, after the columns of `of`. Empty
            without one.
    """

    name: str
    columns: tuple[Column, ...] = ()
    of: Rows | None = None
    clock: str = ""


@dataclass(frozen=True)
class RowScan(TaskScan):
    """Rows of a relation, with the expressions that a local stage evaluates.

    Attributes:
        input: Relation.
    """

    input: Rows

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that the expressions read."""
        read = [*self.filters, self.time, *(key for _, key in self.keys)]
        for partial in self.partials:
            read += [*partial.args, *([partial.condition] if partial.condition else [])]
        refs = {ref for expression in read for ref in column_refs(expression)}
        return tuple(Column(ref.name, ref.type) for ref in sorted(refs, key=lambda ref: ref.name))


RowLocalStep: TypeAlias = LocalStep[RowScan, ArrowBuffer]
LocalRows: TypeAlias = SliceLocalStep | FileLocalStep | RowLocalStep


@dataclass(frozen=True)
class PartialsOfLevel:
    """Partials of one level that several window aggregations share.

    Attributes:
        input: Local stage on the slices of the first level.
        keys: Group keys.
        slice_end: Name of the slice end column.
        accumulators: Accumulators of all partials.
        levels: Slices; every level comes after its source.
        level: Index of the level to read.
        columns: Pairs of a shared column and its name in the aggregation.
    """

    input: LocalRows
    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    levels: tuple[SliceLevel, ...]
    level: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MergedWindows(Rows):
    """Windows merged from partials. A GROUP BY without windows is a single window.

    Attributes:
        input: Partials.
        aggregation: Aggregation that merges them.
        sets: Grouping sets applied to the partials; None if the input applies them.
        window_time: Name of an additional column, the window end minus a millisecond; None if
            unused.
        is_total: Whether there is one row even without input rows, as in a SELECT without GROUP BY.
        has_windows: Whether the windows are in the query.
    """

    input: LocalRows | PartialsOfLevel
    aggregation: WindowAggregation
    sets: GroupingSets | None = None
    window_time: str | None = None
    is_total: bool = False
    has_windows: bool = True

    @property
    def local(self) -> LocalRows:
        """The local stage that computes the partials."""
        return self.input.input if isinstance(self.input, PartialsOfLevel) else self.input

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relation that is aggregated, if it is one."""
        source = self.local.source
        return (source.input,) if isinstance(source, RowScan) else ()


@dataclass(frozen=True)
class ProjectedRows(Rows):
    """Projection of the rows that pass its filters.

    Attributes:
        input: Relation.
        projection: Projection.
    """

    input: Rows
    projection: WindowProjection

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relation that is projected."""
        return (self.input,)


@dataclass(frozen=True)
class RankedRows(Rows):
    """Rows whose rank within their group is in a range, with the rank as last column (INT).

    Attributes:
        input: Relation.
        function: ROW_NUMBER, RANK or DENSE_RANK.
        ranks: First and last rank that passes.
        by: Columns that rows are grouped by.
        order: Sort order within a group.
        column: Name of the rank column.
    """

    input: Rows
    function: str
    ranks: tuple[int, int]
    by: tuple[str, ...]
    order: tuple[RankOrder, ...]
    column: str

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relation that is ranked."""
        return (self.input,)


@dataclass(frozen=True)
class OrderedRows(Rows):
    """ORDER BY, LIMIT and OFFSET.

    Attributes:
        input: Relation.
        order: Sort order; empty for none.
        limit: Maximum number of rows; None for all.
        offset: Number of rows to skip.
        hidden: Number of trailing columns that are only sorted by and dropped from the result.
    """

    input: Rows
    order: tuple[RankOrder, ...]
    limit: int | None = None
    offset: int = 0
    hidden: int = 0

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relation that is ordered."""
        return (self.input,)


@dataclass(frozen=True)
class AssignedRows(Rows):
    """Base of relations with each row once per window that contains it.

    Rows without a time are dropped. Adds three columns: start and end of the window as
    TIMESTAMP_NTZ, and its time, a millisecond before the end.

    Attributes:
        input: Relation.
        window: Window.
        time_column: Time column.
        time_type: `timestamp_ntz` or `timestamp`.
        time_zone: Session time zone, for the wall clock on which a `timestamp` is in windows.
        names: Names of the added columns.
    """

    input: Rows
    window: Window
    time_column: str
    time_type: str
    time_zone: str
    names: tuple[str, str, str]

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relation whose rows are in windows."""
        return (self.input,)


@dataclass(frozen=True)
class WindowedRows(AssignedRows):
    """Rows in windows, computed by kernels."""


@dataclass(frozen=True)
class RepeatedRows(Rows):
    """Each row as often as a column says, without that column.

    Attributes:
        input: Relation.
        copies: Column with the number of copies, BIGINT.
    """

    input: Rows
    copies: str

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relation whose rows are repeated."""
        return (self.input,)


@dataclass(frozen=True)
class FilledRows(Rows):
    """Rows, with a row added for every window of a key without rows.

    Attributes:
        input: Relation.
        filling: Windows and values.
        time_zone: Session time zone, for windows of instants.
    """

    input: Rows
    filling: GapFilling
    time_zone: str

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relation whose gaps are filled."""
        return (self.input,)


@dataclass(frozen=True)
class UnitedRows(Rows):
    """Rows of several relations with the same columns, one after the other."""

    parts: tuple[Rows, ...]

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relations."""
        return self.parts


@dataclass(frozen=True)
class JoinedRows(Rows):
    """Join of two relations whose column names are disjoint.

    Yields the left columns, then the right ones; LeftSemi and LeftAnti only the left ones.

    Attributes:
        left: Left side.
        right: Right side.
        join_type: Inner, LeftOuter, RightOuter, FullOuter, LeftSemi or LeftAnti.
        keys: Pairs of columns of one type that must be equal, left and right. NULL equals nothing.
        condition: Condition over the columns of both sides, or None.
    """

    left: Rows
    right: Rows
    join_type: str
    keys: tuple[tuple[str, str], ...]
    condition: Expression | None = None

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The left and the right side."""
        return (self.left, self.right)
