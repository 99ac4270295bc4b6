"""The join of rows with ranges."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runtime.compute.arrow.batches import BATCH_ROWS
from runtime.compute.kernels.ranges import RangeJoin
from runtime.plan.arrow_rows import InlineRows, RangedRows

TIME = pa.timestamp("us")
OF = RangedRows(InlineRows((), ()), InlineRows((), ()), ("t", "s", "e"), None)


def rows(times: list[int | None]) -> pa.RecordBatch:
    return pa.record_batch({"t": pa.array(times, TIME)})


def ranges(*bounds: tuple[int, int]) -> pa.RecordBatch:
    starts, ends = zip(*bounds, strict=True) if bounds else ((), ())
    return pa.record_batch({"s": pa.array(starts, TIME), "e": pa.array(ends, TIME)})


@pytest.mark.parametrize("n_ranges", [1, 1_000, BATCH_ROWS + 1])
def test_batches_are_bounded_even_if_all_rows_are_in_all_ranges(n_ranges: int) -> None:
    n_rows = max(3, 1_000_000 // n_ranges)
    join = RangeJoin(ranges(*[(0, 10)] * n_ranges), OF)
    sizes = [batch.num_rows for batch in join.batches(rows([5] * n_rows))]
    assert sum(sizes) == n_rows * n_ranges
    assert max(sizes) <= max(BATCH_ROWS, n_ranges)


@pytest.mark.parametrize("bounds", [[], [(7, 9)]])
def test_rows_in_no_range_and_without_a_time_are_left_out(bounds: list[tuple[int, int]]) -> None:
    batches = RangeJoin(ranges(*bounds), OF).batches(rows([None, 6, 9, None]))
    assert sum(batch.num_rows for batch in batches) == 0
