"""Measurements of relations computed in this process, for EXPLAIN ANALYZE."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from runtime.plan.nodes import PlanNode


@dataclass
class RelationFigures:
    """Figures of a relation.

    Attributes:
        n_rows: Rows that it yielded.
        n_bytes: Their bytes in Arrow.
        seconds: Wall-clock time until it had yielded them, including the relations below. 0 if
            another relation read its rows in the same threads.
        scanned_rows: Rows that a window aggregate read from files itself.
    """

    n_rows: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    scanned_rows: int = 0


class RelationMeter:
    """Figures by relation. A relation that is computed several times counts each time."""

    def __init__(self) -> None:
        # Relations are compared by identity, because equal ones are computed separately.
        self._figures: dict[int, RelationFigures] = {}

    def figures(self, rows: PlanNode) -> RelationFigures:
        """Return the figures of a relation."""
        return self._figures.setdefault(id(rows), RelationFigures())

    def measure(
        self, rows: PlanNode, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a relation and measure them."""
        figures = self.figures(rows)
        while True:
            begun = time.perf_counter()
            batch = next(batches, None)
            figures.seconds += time.perf_counter() - begun
            if batch is None:
                return
            self.count(rows, batch)
            yield batch

    def count(self, rows: PlanNode, batch: pa.RecordBatch) -> None:
        """Count a batch of a relation."""
        figures = self.figures(rows)
        figures.n_rows += batch.num_rows
        figures.n_bytes += batch.nbytes
