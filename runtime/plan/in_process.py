"""A query computed in this process, without Spark."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.plan.arrow_rows import FileRows, LocalRows
from runtime.plan.local import ArrowBuffer, FileScan, SliceRows, is_local
from runtime.plan.nodes import PlanNode
from runtime.spec.table import Column
from runtime.spec.text import FileSource


@dataclass(frozen=True)
class InProcessStep:
    """A query computed in this process, without Spark.

    Attributes:
        rows: Rows of the query.
        columns: Names and Spark types of the result columns.
    """

    rows: PlanNode
    columns: tuple[Column, ...]

    @property
    def scans(self) -> tuple[FileSource, ...]:
        """Files that are read, slices first."""
        return tuple(files for _, files in self.reads)

    @property
    def reads(self) -> tuple[tuple[LocalRows | None, FileSource], ...]:
        """Files that are read, slices first, each with the local stage that reads them.

        Steps that run together compute equal local stages once. None: other relations.
        """
        reads: list[tuple[LocalRows | None, FileSource]] = []
        for node in self.rows.walk():
            if isinstance(node, FileRows):
                reads.append((None, node.files))
            elif is_local(node, SliceRows, ArrowBuffer):
                tail = node.source.tail
                reads += [
                    (node, node.source.files),
                    *([] if tail is None else [(node, tail.files)]),
                ]
            elif is_local(node, FileScan, ArrowBuffer):
                reads.append((node, node.source.files))
        return tuple(reads)

    @property
    def reads_slices(self) -> bool:
        """Whether slices of a materialized table are read."""
        return any(isinstance(node, SliceRows) for node in self.rows.walk())
