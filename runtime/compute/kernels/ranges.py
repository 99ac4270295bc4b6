"""Rows in the ranges of time that contain them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.batches import BATCH_ROWS, numbers
from runtime.compute.kernels.conversions import Int64Array, int64_values
from runtime.compute.wall_clock import wall_clock_us
from runtime.plan.arrow_rows import RangedRows


class RangeJoin:
    """Ranges that rows are joined with.

    Args:
        bounds: All ranges.
        of: Columns that are compared.
    """

    def __init__(self, bounds: pa.RecordBatch, of: RangedRows) -> None:
        self._of = of
        _, starts, ends = of.columns
        order = np.argsort(int64_values(bounds.column(starts)), kind="stable")
        self._bounds = bounds.take(numbers(order))
        self._starts_us = int64_values(self._bounds.column(starts))
        self._ends_us = int64_values(self._bounds.column(ends))
        # Latest end of each range and those before it: ascending, so ranges that have all ended
        # before a time are found by bisection.
        self._latest_us = np.maximum.accumulate(self._ends_us)

    def batches(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield rows with the ranges that contain them, by row, then by start."""
        time = self._of.columns[0]
        rows = rows.filter(rows.column(time).is_valid())
        times_us = int64_values(rows.column(time))
        if self._of.time_zone is not None:
            times_us = wall_clock_us(times_us, self._of.time_zone)
        first = np.searchsorted(self._latest_us, times_us, side="right")
        counts = np.searchsorted(self._starts_us, times_us, side="right") - first
        for begin, end in _parts(counts):
            n_pairs = counts[begin:end]
            row = np.repeat(np.arange(begin, end), n_pairs)
            place = np.arange(len(row)) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
            of_range = first.take(row) + place
            has_not_ended = self._ends_us.take(of_range) > times_us.take(row)
            left = rows.take(numbers(row[has_not_ended]))
            right = self._bounds.take(numbers(of_range[has_not_ended]))
            names = [*left.schema.names, *right.schema.names]
            yield pa.RecordBatch.from_arrays([*left.columns, *right.columns], names)


def _parts(counts: Int64Array) -> Iterator[tuple[int, int]]:
    """Yield parts of rows with at most `BATCH_ROWS` pairs, or a single row."""
    until = np.cumsum(counts)
    begin = 0
    while begin < len(counts):
        before = int(until[begin - 1]) if begin else 0
        end = int(np.searchsorted(until, before + BATCH_ROWS, side="right"))
        end = max(end, begin + 1)
        yield begin, end
        begin = end
