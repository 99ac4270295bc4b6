"""What the planner asks of its surroundings while it binds names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from runtime.spec.aggregates import UserAggregate
from runtime.spec.expressions import Expression
from runtime.spec.scan import ScanSource
from runtime.spec.slices import SliceFiles, SliceTable
from runtime.spec.source import SplitTable
from runtime.spec.table import Column, Watermark

Schema = tuple[Column, ...]


@dataclass(frozen=True)
class StreamTable:
    """A table that is read as a stream.

    Attributes:
        name: the table, for messages.
        watermark: its WATERMARK FOR, whose expression is Spark SQL over the table's columns.
        proctime: its PROCTIME() columns, in lower case.
        late_rows: the table for rows of it that are too late; None: they are dropped.
        split: the number of the split that a row is of, from 0 on, Spark SQL over the table's
            columns, if each has a watermark of its own; None: the table has one, unless
            `has_splits`.
        has_splits: whether each split has a watermark of its own where tasks read the table
            themselves: they know which split they read.
    """

    name: str
    watermark: Watermark | None
    proctime: frozenset[str] = frozenset()
    late_rows: str | None = None
    split: str | None = None
    has_splits: bool = False


class Catalog(Protocol):
    """Tables, views and Spark's analyser, as the planner sees them."""

    def view(self, name: tuple[str, ...]) -> exp.Query | None:
        """The query behind a view that sqlwin keeps, or None.

        The caller may change the tree. It has no source positions: those would be places in the
        view's text.
        """

    def with_options(
        self, name: tuple[str, ...], options: Sequence[tuple[str, str]]
    ) -> tuple[str, ...]:
        """The name of a table that is another one with some options changed, for this statement.

        Raises:
            SqlwinError: `name` is no table that sqlwin keeps, or an option is wrong.
        """

    def connector(self, name: tuple[str, ...]) -> str | None:
        """The connector of a table that sqlwin keeps, or None for a table of Spark's catalog."""

    def relation(self, name: tuple[str, ...]) -> str | None:
        """The name by which Spark knows a table that sqlwin keeps, or None for Spark's own."""

    def stream(self, name: tuple[str, ...]) -> StreamTable | None:
        """The stream that a name stands for in this statement, or None for a bounded one.

        Args:
            name: the name of a session table, or what `relation` made of it.
        """

    def scan_source(
        self, name: tuple[str, ...], columns: Schema, filters: Sequence[Expression] = ()
    ) -> ScanSource | SplitTable | str:
        """What the Arrow scan reads of a session table, or why it cannot.

        Args:
            name: the table.
            columns: the columns that are needed, with Spark's types.
            filters: conditions over them of which all must be true for a row to count; files in
                which they cannot be may be left out.
        """

    def computed_columns(self, name: tuple[str, ...]) -> Mapping[str, exp.Expr]:
        """The computed columns of a session table, by their names in lower case."""

    def stream_splits(self, name: tuple[str, ...], columns: Schema) -> SplitTable | str:
        """What tasks read of a stream, files or messages; or why they do not.

        Args:
            name: the table.
            columns: the columns that are needed, with Spark's types.
        """

    def slice_tables(self, base: str) -> Sequence[SliceTable | str]:
        """The materialized tables over a base table; of one that cannot be read, its name and why.

        Args:
            base: its name in lower case, as `LocalForm` has it.
        """

    def slice_files(
        self,
        table: SliceTable,
        range_us: tuple[int | None, int | None],
        filters: Sequence[Expression],
        columns: Schema | None,
    ) -> SliceFiles | str:
        """The files of a materialized table, and those of its base table that are not in it.

        Args:
            table: the table.
            range_us: only slices whose end is above the first and at most the second; None: all.
            filters: conditions over the table of slices; files in which they cannot be true may be
                left out.
            columns: what is read of the base table's files; None: they are not asked about, since
                the statement has asked before.

        Returns:
            The files, or why they do not say what the base table says now.
        """

    def user_aggregate(self, name: str) -> UserAggregate | None:
        """The user-defined aggregate function that is called `name`, in any case, or None."""

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        """Output columns of `query`, by Spark's own analyser.

        Args:
            query: Spark SQL; tables named in `relations` stand for relations of that schema.
            relations: schemas of the placeholders.

        Raises:
            AnalysisError: Spark refuses the query; the position, if there is one, is in the
                text that the user wrote.
        """


def column_named(schema: Schema, name: str) -> Column | None:
    """The column called `name`, by Spark's rule: case does not matter."""
    folded = name.lower()
    return next((column for column in schema if column.name.lower() == folded), None)
