"""A query computed in this process, without Spark."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.in_process.relations import (
    FileRows,
    LocalRows,
    MergedWindows,
    Rows,
    RowScan,
    TextRows,
)
from runtime.spec.in_process.text import TextSource
from runtime.spec.local import SliceRows
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column


@dataclass(frozen=True)
class InProcessStep:
    """A query computed in this process, without Spark.

    Attributes:
        rows: Rows of the query.
        columns: Names and Spark types of the result columns.
    """

    rows: Rows
    columns: tuple[Column, ...]

    @property
    def scans(self) -> tuple[ScanSource | TextSource, ...]:
        """Files that are read, slices first."""
        return tuple(files for _, files in self.reads)

    @property
    def reads(self) -> tuple[tuple[LocalRows | None, ScanSource | TextSource], ...]:
        """Files that are read, slices first, each with the local stage that reads them.

        Steps that run together compute equal local stages once. None: other relations.
        """
        reads: list[tuple[LocalRows | None, ScanSource | TextSource]] = []
        for rows in self.rows.walk():
            if isinstance(rows, FileRows | TextRows):
                reads.append((None, rows.files))
            elif isinstance(rows, MergedWindows):
                source = rows.local.source
                if isinstance(source, SliceRows):
                    reads.append((rows.local, source.files))
                    reads += [] if source.tail is None else [(rows.local, source.tail.files)]
                elif not isinstance(source, RowScan):
                    reads.append((rows.local, source.files))
        return tuple(reads)

    @property
    def reads_slices(self) -> bool:
        """Whether slices of a materialized table are read."""
        return any(
            isinstance(rows, MergedWindows) and isinstance(rows.local.source, SliceRows)
            for rows in self.rows.walk()
        )
