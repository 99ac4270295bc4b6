"""Tables that the current statement reads as streams."""

from __future__ import annotations

from dataclasses import dataclass

from planner.catalog import StreamTable
from runtime.connectors.registry import open_table
from runtime.errors import CatalogError
from runtime.options.checks import duration_us
from runtime.spec.table import TableSpec
from sqlwin.catalog.entries import Registered


@dataclass(frozen=True)
class StreamReading:
    """How a statement reads the tables that can be streams.

    Attributes:
        mode: `automatic`: unbounded tables are streams. `streaming`: all tables that can be.
            `batch`: none.
        per_split: Whether splits of a stream have their own watermarks: `true`, `false`, or
            `auto` if rows or tasks know their split.
        idle_advance_us: `StreamTable.idle_advance_us` of tables without an option of their own.
        is_simulated: Whether streams are planned for the simulator, so that Spark never reads them.
    """

    mode: str = "automatic"
    per_split: str = "auto"
    idle_advance_us: int | None = None
    is_simulated: bool = False

    def is_streamed(self, spec: TableSpec) -> bool:
        """Return whether the statement reads a declared table as a stream."""
        if self.mode == "batch":
            return False
        table = open_table(spec)
        return table.is_unbounded or (self.mode == "streaming" and table.can_stream_bounded)

    def of_dataframe(self, entry: Registered) -> StreamTable:
        """Return the stream of a registered streaming DataFrame."""
        return StreamTable(
            ".".join(entry.name), entry.watermark, idle_advance_us=self.idle_advance_us
        )

    def of_table(self, spec: TableSpec) -> StreamTable:
        """Return the stream of a declared table.

        Raises:
            CatalogError: Splits must have their own watermarks, but the table has no splits.
        """
        return StreamTable(
            spec.name,
            spec.watermark,
            spec.proctime_columns,
            spec.late_rows,
            None if self.per_split == "false" else self._split(spec),
            self.per_split != "false" and open_table(spec).has_splits,
            self.idle_advance_us
            if spec.idle_advance is None
            else duration_us(spec.idle_advance) or None,
            not self.is_simulated and open_table(spec).is_streamed_by_tasks,
        )

    def _split(self, spec: TableSpec) -> str | None:
        try:
            return open_table(spec).split_sql()
        except CatalogError:
            if self.per_split == "true":
                raise
            return None
