"""Nodes whose expressions Arrow evaluates. They refer to the columns of the input by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from runtime.plan.exchange import ExpandedPartials, MergedWindows, WindowProjection
from runtime.plan.local import (
    ArrowBuffer,
    FileLocalStep,
    FileScan,
    GroupingSets,
    LocalStep,
    SliceLocalStep,
    SliceRows,
    TaskScan,
    is_local,
)
from runtime.plan.nodes import PlanNode
from runtime.spec.expressions import Constant, Expression, RankOrder, column_refs
from runtime.spec.filling import AsOfMatching, GapFilling
from runtime.spec.source import SplitTable
from runtime.spec.table import Column
from runtime.spec.text import FileSource
from runtime.windows import Window


@dataclass(frozen=True)
class InlineRows(PlanNode):
    """Rows whose values are in the query.

    Attributes:
        columns: Columns, at least one.
        rows: Expressions without columns, one per column and row, of the columns' types.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Expression, ...], ...]

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """Empty: expressions are not nodes."""
        return ()


@dataclass(frozen=True)
class FileRows(PlanNode):
    """Rows of files.

    Attributes:
        files: Files, with at least one column to read; text may have none.
        filters: Conditions, joined by AND. Row groups and lines without a row that satisfies them
            are skipped.
    """

    files: FileSource
    filters: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class DatabaseRows(PlanNode):
    """Rows of a table that its connector reads in this process.

    Attributes:
        source: Table, with at least one column to read.
    """

    source: SplitTable


@dataclass(frozen=True)
class GivenRows(PlanNode):
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
    of: PlanNode | None = None
    clock: str = ""

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """Empty: the rows are given; `of` only has their schema."""
        return ()


@dataclass(frozen=True)
class RowScan(TaskScan):
    """Rows of a relation, with the expressions that a local stage evaluates.

    Attributes:
        input: Relation.
    """

    input: PlanNode

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


def local_rows(windows: MergedWindows) -> LocalRows:
    """Return the local stage of windows that this process merges."""
    partials = windows.partials
    local = partials.input if isinstance(partials, ExpandedPartials) else partials
    assert (
        is_local(local, SliceRows, ArrowBuffer)
        or is_local(local, FileScan, ArrowBuffer)
        or is_local(local, RowScan, ArrowBuffer)
    )
    return local


def grouping_sets(windows: MergedWindows) -> GroupingSets | None:
    """Return the grouping sets that are applied to all partials, or None."""
    partials = windows.partials
    return partials.sets if isinstance(partials, ExpandedPartials) else None


@dataclass(frozen=True)
class ProjectedRows(PlanNode):
    """Projection of the rows that pass its filters.

    Attributes:
        input: Relation.
        projection: Projection.
    """

    input: PlanNode
    projection: WindowProjection


@dataclass(frozen=True)
class RankedRows(PlanNode):
    """Rows whose rank within their group is in a range, with the rank as last column (INT).

    Attributes:
        input: Relation.
        function: ROW_NUMBER, RANK or DENSE_RANK.
        ranks: First and last rank that passes.
        by: Columns that rows are grouped by.
        order: Sort order within a group.
        column: Name of the rank column.
        label: Operator name for EXPLAIN ANALYZE; empty if it does not count this node.
        is_spread: On a stream, whether one task has all rows of a group already.
    """

    input: PlanNode
    function: str
    ranks: tuple[int, int]
    by: tuple[str, ...]
    order: tuple[RankOrder, ...]
    column: str
    label: str = ""
    is_spread: bool = False


@dataclass(frozen=True)
class Neighbour:
    """LAG or LEAD: a value of an earlier or a later row of the same group.

    Attributes:
        column: Name of the result.
        type: Its Spark type.
        function: LAG or LEAD.
        value: Column with the value.
        distance: Number of rows between, at least 1.
        default: Value for rows without such a neighbour.
        by: Columns that rows are grouped by.
        order: Sort order within a group.
    """

    column: str
    type: str
    function: str
    value: str
    distance: int
    default: Constant
    by: tuple[str, ...]
    order: tuple[RankOrder, ...]


@dataclass(frozen=True)
class NeighbourRows(PlanNode):
    """Rows with values of their neighbours as last columns.

    Only SQL of other engines computes them; in this process and in workers, Spark does.

    Attributes:
        input: Relation.
        neighbours: The values.
    """

    input: PlanNode
    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True)
class OrderedRows(PlanNode):
    """ORDER BY, LIMIT and OFFSET.

    Attributes:
        input: Relation.
        order: Sort order; empty for none.
        limit: Maximum number of rows; None for all.
        offset: Number of rows to skip.
        hidden: Number of trailing columns that are only sorted by and dropped from the result.
    """

    input: PlanNode
    order: tuple[RankOrder, ...]
    limit: int | None = None
    offset: int = 0
    hidden: int = 0


@dataclass(frozen=True)
class WindowedRows(PlanNode):
    """Each row once per window that contains it. Rows without a time are dropped.

    Adds three columns: start and end of the window as TIMESTAMP_NTZ, and its time, a millisecond
    before the end.

    Attributes:
        input: Rows.
        window: Window.
        time_column: Time column.
        time_type: `timestamp_ntz` or `timestamp`.
        time_zone: Session time zone, for the wall clock on which a `timestamp` is in windows.
        names: Names of the added columns.
    """

    input: PlanNode
    window: Window
    time_column: str
    time_type: str
    time_zone: str
    names: tuple[str, str, str]


@dataclass(frozen=True)
class RangedRows(PlanNode):
    """Each row once per range that contains its time, with the columns of the range.

    Yields the columns of the rows, then of the ranges. Rows without a time are dropped.

    Attributes:
        input: Rows.
        bounds: Ranges. None is empty or has a NULL.
        columns: Time column of the rows, starts and ends of the ranges.
        time_zone: Time zone on whose wall clock the times are compared. None: as they are.
    """

    input: PlanNode
    bounds: PlanNode
    columns: tuple[str, str, str]
    time_zone: str | None


@dataclass(frozen=True)
class RepeatedRows(PlanNode):
    """Each row as often as a column says, without that column.

    Attributes:
        input: Relation.
        copies: Column with the number of copies, BIGINT.
    """

    input: PlanNode
    copies: str


@dataclass(frozen=True)
class FilledRows(PlanNode):
    """Rows, with a row added for every window of a key without rows.

    Attributes:
        input: Relation.
        filling: Windows and values.
        time_zone: Session time zone, for windows of instants.
    """

    input: PlanNode
    filling: GapFilling
    time_zone: str


@dataclass(frozen=True)
class UnitedRows(PlanNode):
    """Rows of several relations with the same columns, one after the other."""

    parts: tuple[PlanNode, ...]


@dataclass(frozen=True)
class JoinedRows(PlanNode):
    """Join of two relations whose column names are disjoint.

    Yields the left columns, then the right ones; LeftSemi and LeftAnti only the left ones.

    Attributes:
        left: Left side.
        right: Right side.
        join_type: Inner, LeftOuter, RightOuter, FullOuter, LeftSemi or LeftAnti.
        keys: Pairs of columns that must be equal, left and right. NULL equals nothing.
        condition: Condition over the columns of both sides, or None.
        window_keys: On a stream, the keys that are window columns: both sides emit a window in the
            same micro-batch.
        label: Operator name for EXPLAIN ANALYZE; empty if it does not count this node.
    """

    left: PlanNode
    right: PlanNode
    join_type: str
    keys: tuple[tuple[str, str], ...]
    condition: Expression | None = None
    window_keys: tuple[tuple[str, str], ...] = ()
    label: str = ""


@dataclass(frozen=True)
class AsOfRows(PlanNode):
    """Each left row with the right row that is nearest in time. Column names are disjoint.

    Yields the left columns, then the right ones.

    Attributes:
        left: Left side.
        right: Right side.
        matching: Which right row is picked.
        keeps_all: Whether left rows without a match remain.
    """

    left: PlanNode
    right: PlanNode
    matching: AsOfMatching
    keeps_all: bool
