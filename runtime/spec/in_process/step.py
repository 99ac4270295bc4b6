"""A query that this process computes without Spark."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.in_process.relations import FileRows, MergedWindows, Rows, RowScan, TextRows
from runtime.spec.in_process.text import TextSource
from runtime.spec.local import SliceRows
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column


@dataclass(frozen=True)
class InProcessStep:
    """A query that this process computes without Spark.

    Attributes:
        rows: Rows of the query.
        columns: Names and Spark types of the result columns.
    """

    rows: Rows
    columns: tuple[Column, ...]

    @property
    def scans(self) -> tuple[ScanSource | TextSource, ...]:
        """Files that are read, slices first."""
        scans: list[ScanSource | TextSource] = []
        for rows in self.rows.walk():
            if isinstance(rows, FileRows | TextRows):
                scans.append(rows.files)
            elif isinstance(rows, MergedWindows):
                source = rows.local.source
                if isinstance(source, SliceRows):
                    scans.append(source.files)
                    scans += [] if source.tail is None else [source.tail.files]
                elif not isinstance(source, RowScan):
                    scans.append(source.files)
        return tuple(scans)

    @property
    def reads_slices(self) -> bool:
        """Whether slices of a materialized table are read."""
        return any(
            isinstance(rows, MergedWindows) and isinstance(rows.local.source, SliceRows)
            for rows in self.rows.walk()
        )
