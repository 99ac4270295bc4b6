"""The catalog interface that the planner uses to look up names, schemas and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from runtime.plan.arrow_rows import LocalRows
from runtime.refusal import Refusal
from runtime.spec.expressions import Expression
from runtime.spec.materialized import SliceFiles, SliceTable
from runtime.spec.source import SplitTable
from runtime.spec.table import Column, Watermark
from runtime.spec.text import FileSource
from runtime.spec.user_aggregates import UserAggregate

Schema = tuple[Column, ...]


@dataclass(frozen=True)
class StreamTable:
    """A table that is read as a stream.

    Attributes:
        name: Name of the table, for messages.
        watermark: The table's WATERMARK FOR clause. Its expression is Spark SQL over the table's
            columns.
        proctime: Lower-case names of the PROCTIME() columns.
        late_rows: Table that receives late rows. None if they are dropped.
        split: Spark SQL over the table's columns that computes the split number of a row, from 0,
            if each split has its own watermark. None if the table has one watermark, unless
            `has_splits`.
        has_splits: Whether each split has its own watermark and tasks read the table themselves, so
            that they know which split they read.
        idle_advance_us: Time without rows, in microseconds, after which its watermark may advance
            with the clock. None means never.
        is_read_by_tasks: Whether only tasks read the table; Spark gets the rows from them.
    """

    name: str
    watermark: Watermark | None
    proctime: frozenset[str] = frozenset()
    late_rows: str | None = None
    split: str | None = None
    has_splits: bool = False
    idle_advance_us: int | None = None
    is_read_by_tasks: bool = False


@dataclass(frozen=True)
class VersionedTable:
    """Declaration of the row versions of a session table.

    Attributes:
        key: Columns of its PRIMARY KEY. Empty without one.
        time: Column of its watermark. None without one.
        proctime: Lower-case names of the PROCTIME() columns.
        has_changes: Whether its versions are the changes of its rows, see `Catalog.changes`.
        has_time_if_deleted: Whether a change that deletes a row certainly has the time.
    """

    key: tuple[str, ...]
    time: str | None
    proctime: frozenset[str] = frozenset()
    has_changes: bool = False
    has_time_if_deleted: bool = False


class Catalog(Protocol):
    """Tables, views and Spark's analyser, as the planner uses them.

    Functions that return sources or files of a table raise `Refused` where only Spark can read it.
    """

    def view(self, name: tuple[str, ...]) -> exp.Query | None:
        """Return the query of a view defined in sqlwin, or None.

        The caller may modify the tree. It carries no source positions, because they would refer to
        the view's text.
        """

    def with_options(
        self, name: tuple[str, ...], options: Sequence[tuple[str, str]]
    ) -> tuple[str, ...]:
        """Register a copy of a table with changed options for this statement, and return its name.

        Raises:
            SqlwinError: `name` is not a table of sqlwin, or an option is invalid.
        """

    def connector(self, name: tuple[str, ...]) -> str | None:
        """Return the connector of a sqlwin table, or None for a table of Spark's catalog."""

    def is_read_in_process(self, name: tuple[str, ...]) -> bool:
        """Return whether this process may read a sqlwin table without Spark."""

    def versions(self, name: tuple[str, ...]) -> VersionedTable | None:
        """Return the version declaration of a sqlwin table, or None for any other table."""

    def changes(self, name: tuple[str, ...], *, is_bounded: bool) -> tuple[str, ...]:
        """Register the changes of a table's rows for this statement, and return their name.

        They have the columns of the table and `runtime.spec.table.CHANGE_COLUMNS`.

        Args:
            name: Table whose `versions` say that it has changes.
            is_bounded: Whether they end with the changes that exist now.
        """

    def relation(self, name: tuple[str, ...]) -> str | None:
        """Return Spark's name of a sqlwin table, or None for Spark's own tables."""

    def stream(self, name: tuple[str, ...]) -> StreamTable | None:
        """Return the stream that a name refers to in this statement, or None for a bounded table.

        Args:
            name: Name of a session table, or the name that `relation` returned for it.
        """

    def scan_source(
        self, name: tuple[str, ...], columns: Schema, filters: Sequence[Expression] = ()
    ) -> FileSource | SplitTable:
        """Return the source of an Arrow scan of a session table.

        Args:
            name: Name of the table.
            columns: Columns to read, with Spark types.
            filters: Conditions over the columns, all of them required. Files without a matching row
                may be skipped.
        """

    def computed_columns(self, name: tuple[str, ...]) -> Mapping[str, exp.Expr]:
        """Return the computed columns of a session table by lower-case name.

        The caller must not modify the trees.
        """

    def expression(self, text: str) -> exp.Expr:
        """Return the tree of an expression of a table's definition, such as its watermark.

        The caller must not modify the tree.

        Args:
            text: The expression as Spark SQL.
        """

    def stream_splits(self, name: tuple[str, ...], columns: Schema) -> SplitTable:
        """Return the splits of a stream that tasks read themselves.

        Args:
            name: Name of the table.
            columns: Columns to read, with Spark types.
        """

    def slice_tables(self, base: str) -> Sequence[SliceTable | Refusal]:
        """Return the materialized tables over a base table.

        An unreadable table is represented by a refusal, which names it.

        Args:
            base: Lower-case name of the base table, as in `LocalForm`.
        """

    def slice_files(
        self,
        table: SliceTable,
        range_us: tuple[int | None, int | None],
        columns: Schema | None,
    ) -> SliceFiles:
        """Return a materialized table's files and the base files that it does not cover.

        Args:
            table: The materialized table.
            range_us: Exclusive lower and inclusive upper bound of the slice ends to read, in
                microseconds. None means unbounded.
            columns: Columns to read from the base table's files. None if the statement has listed
                these files before.

        Raises:
            Refused: The files do not reflect the current base table.
        """

    def user_aggregate(self, name: str) -> UserAggregate | None:
        """Return the user-defined aggregate function called `name`, ignoring case, or None."""

    def types_of_windows(self, local: LocalRows, results: Schema) -> Mapping[str, str]:
        """Return the Spark types of windows merged from partials of rows, by column name.

        Args:
            local: Local stage with the rows.
            results: Columns that are not partials.

        Raises:
            AnalysisError: A function does not accept the type of an argument.
        """

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        """Return the output columns of `query`, resolved by Spark's analyser.

        Args:
            query: Spark SQL in which the tables named in `relations` are placeholders.
            relations: Schemas of the placeholders.

        Raises:
            AnalysisError: Spark rejects the query. The position, if any, refers to the user's text.
        """


def type_named(schema: Schema, name: str) -> str:
    """Return the type of the column called exactly `name`, which exists."""
    return next(column.type for column in schema if column.name == name)


def column_named(schema: Schema, name: str) -> Column | None:
    """Return the column called `name`, ignoring case as Spark does, or None."""
    lower_name = name.lower()
    return next((column for column in schema if column.name.lower() == lower_name), None)
