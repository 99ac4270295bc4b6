"""APPROX_COUNT_DISTINCT from registers equals the estimate from the windows' rows."""

import numpy as np
import pyarrow as pa
import pytest

from runtime.compute.buffer import BufferRows, WindowBuffer
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.values.registers import estimates, register_codes
from runtime.spec.aggregates import ApproxCountDistinct, CollectRegisters, WindowAggregation
from runtime.spec.table import Column
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.reference import windows_of

WINDOWS = [Tumble(10), Hop(10, 60), Hop(10, 35), Cumulate(10, 50)]


def count_of(precision):
    output = Column("count", "bigint")
    return ApproxCountDistinct(("registers",), output, precision)


def by_definition(codes, precision):
    """Return the estimate from all registers, one by one."""
    registers = np.zeros(1 << precision, np.int64)
    for code in codes:
        registers[code >> 6] = max(registers[code >> 6], code & 63)
    inverse = np.array([np.sum(0.5**registers)])
    return int(estimates(precision, inverse, np.array([np.sum(registers == 0)]))[0])


@pytest.mark.parametrize("buffer_bytes", [1, 30_000, 64 << 20])
@pytest.mark.parametrize("precision", [4, 9])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_estimate_by_the_largest_ranks_of_their_rows(window, precision, buffer_bytes):
    rng = np.random.default_rng(precision)
    n_rows, n_batches = 3_000, 6
    schema = [("key", pa.int32()), ("slice", pa.int64()), ("registers", pa.list_(pa.int32()))]
    registers = (CollectRegisters(("registers",), 9),)
    buffer = WindowBuffer(window, ("key",), "slice", registers, pa.schema(schema), buffer_bytes)
    tables, expected = [], {}
    for batch in range(n_batches):
        time = rng.integers(-100, 100, n_rows // n_batches)
        key = rng.integers(0, 3, len(time))
        value = rng.integers(0, 1 << rng.integers(2, 40), len(time))
        # A batch without values, and rows that the FILTER excludes.
        valid = (rng.random(len(time)) < 0.8) & (batch != 1)
        condition = rng.random(len(time)) < 0.7
        codes = register_codes(pa.array(value, mask=~valid), precision)
        rows = BufferRows(time, [pa.array(key, pa.int32())], [[codes]], [condition])
        tables += buffer.add(rows)
        assert buffer.pending_bytes <= buffer_bytes
        for t, k, c, f in zip(time, key, codes.to_pylist(), condition, strict=True):
            for _, end in windows_of(window, int(t)):
                group = expected.setdefault((int(k), end), [])
                group += [c] if f and c is not None else []
    tables += buffer.flush()
    spec = WindowAggregation(window, ("key",), "slice", (count_of(precision),))
    result = {}
    for batch in merge_slices(pa.concat_tables(tables), spec):
        ends = batch["window_end"].cast(pa.int64()).to_pylist()
        keys, counts = batch["key"].to_pylist(), batch["count"].to_pylist()
        result |= dict(zip(zip(keys, ends, strict=True), counts, strict=True))
    assert result == {group: by_definition(codes, precision) for group, codes in expected.items()}


def test_a_register_stores_its_largest_rank():
    schema = pa.schema([("slice", pa.int64()), ("registers", pa.list_(pa.int32()))])
    buffer = WindowBuffer(
        Tumble(10), (), "slice", (CollectRegisters(("registers",), 9),), schema, 1 << 20
    )
    for ranks in ([3, 1], [2, 5]):
        codes = pa.array([(7 << 6) | rank for rank in ranks] + [(2 << 6) | 1], pa.int32())
        rows = BufferRows(np.zeros(len(codes), np.int64), [], [[codes]], [None])
        assert list(buffer.add(rows)) == []
    (table,) = buffer.flush()
    assert table["registers"].to_pylist() == [[(2 << 6) | 1, (7 << 6) | 5]]


@pytest.mark.variants(2)
@pytest.mark.parametrize("n", [1, 30, 400, 2_000, 40_000])
@pytest.mark.parametrize("precision", [9, 12])
def test_estimates_are_within_three_standard_errors(n, precision):
    rng = np.random.default_rng(n)
    values = np.unique(rng.integers(0, 1 << 60, n))
    codes = register_codes(pa.array(values), precision)
    error = by_definition(codes.to_pylist(), precision) / len(values) - 1
    assert abs(error) <= 3 * 1.04 / 2 ** (precision / 2)


def test_no_rows_are_estimated_as_zero():
    assert by_definition([], 9) == 0
