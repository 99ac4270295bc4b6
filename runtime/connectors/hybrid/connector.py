"""Tables of the connector 'hybrid': checks, and their rows in a batch."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runtime.connectors.connector import Table
from runtime.connectors.declarations import check_columns
from runtime.connectors.declared_columns import declared_schema
from runtime.connectors.hybrid.overlap import rows_in_order, rows_of_both
from runtime.connectors.hybrid.parts import Parts, check_parts
from runtime.connectors.hybrid.splits import HybridSplits
from runtime.connectors.unread_rows import rows_by_tasks
from runtime.errors import CatalogError
from runtime.options.checks import check_options
from runtime.options.known import HYBRID
from runtime.spec.source import SplitTable
from runtime.spec.table import Column


def named(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return columns of rows, found by name ignoring case."""
    found = {name.lower(): name for name in rows.column_names}
    return rows.select([found[name.lower()] for name in names]).rename_columns(list(names))


class HybridTable(Table):
    """Table with the rows of a bounded table and of the table that continues it."""

    options = HYBRID
    can_stream_bounded = True
    is_streamed_by_tasks = True
    part_options = ("first", "then")

    @property
    def both(self) -> Parts:
        """Both tables, and how the second continues the first.

        Raises:
            CatalogError: The table was not created by CREATE TABLE of this session.
        """
        if len(self.parts) != len(self.part_options):
            raise CatalogError(
                f"table `{self.spec.name}`: the tables that 'first' and 'then' name are unknown",
                subjects=(self.spec.name,),
                hint="create it again in this session",
            )
        return Parts(self.spec, *self.parts)

    def validate(self) -> None:
        """Check the options, and that both tables have the columns.

        Raises:
            CatalogError: An option or a column is wrong, or a table cannot be this part.
        """
        check_options(self.spec, self.options)
        check_columns(self.spec)
        check_parts(self.both)

    @property
    def is_unbounded(self) -> bool:
        """Whether the second table is unbounded."""
        return self.both.then.is_unbounded

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows that both tables have now."""
        return rows_of_both(spark, self.both)

    def rows_of_parts(self, rows: Sequence[pa.Table]) -> pa.Table:
        """Return given rows of both tables in the order in which a stream reads them."""
        names = [column.name for column in self.both.columns]
        first, then = (named(table, names) for table in rows)
        return rows_in_order(self.both, first, then)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the columns of a stream that only tasks can read."""
        schema = declared_schema(self.spec, self.spec.physical_columns)
        return rows_by_tasks(spark, self.spec.name, schema)

    def stream_scan(self, spark: SparkSession, columns: Sequence[Column]) -> SplitTable:
        """Return the scan in which tasks read both tables."""
        sources = self.both.scans(spark, columns)
        first, then = (
            f"{part.spec.name} ({source.path})"
            for part, source in zip((self.both.first, self.both.then), sources, strict=True)
        )
        path = f"{first} in order of time, then {then}"
        if self.both.has_stored_offsets:
            path += ", from the offsets stored with the version of the first"
        return SplitTable(self.spec, path, tuple(columns))

    def splits(self, spark: SparkSession) -> HybridSplits:
        """Return the splits of both tables."""
        return HybridSplits(spark, self.both)

    @property
    def has_splits(self) -> bool:
        """Whether the second table has splits with watermarks of their own."""
        return self.both.then.has_splits
