"""Sets of values in the window buffer: DISTINCT aggregates for any batch sizes."""

import math
import random
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from runtime.compute.arrow.types import arrow_type
from runtime.compute.buffer import BufferRows, WindowBuffer
from runtime.compute.kernels.merge import merge_slices
from runtime.spec.aggregates import CollectSet, Distinct, Merge, MergeOp, WindowAggregation
from runtime.spec.table import Column
from runtime.windows.hop import Hop

# name -> (types of the arguments, values to draw from)
VALUES = {
    "narrow": (["int"], [None, -3, 0, 1, 2]),
    "wide": (["bigint"], [None, -(2**63), 2**63 - 1, 0, 17]),
    "words": (["string"], [None, "", "a", "b", "ß"]),
    "doubles": (["double"], [None, 0.0, -0.0, math.nan, -math.nan, 1.5]),
    "flags": (["boolean"], [None, True, False]),
    "decimals": (["decimal(12,2)"], [None, Decimal("1.10"), Decimal("-2.00")]),
    "pairs": (["string", "double"], [None, "a", "b"]),
}
WINDOW = Hop(10, 40)


def buffer_of(name, key_types, buffer_bytes):
    types, _ = VALUES[name]
    value = types[0]
    if len(types) > 1:
        value = "struct<" + ",".join(f"v{i}:{t}" for i, t in enumerate(types)) + ">"
    keys = tuple(f"key{i}" for i in range(len(key_types)))
    fields = [*zip(keys, key_types, strict=True), ("slice", pa.int64())]
    fields += [("n", pa.int64()), ("values", arrow_type(f"array<{value}>"))]
    accumulators = (Merge(("n",), MergeOp.COUNT), CollectSet(("values",)))
    return WindowBuffer(WINDOW, keys, "slice", accumulators, pa.schema(fields), buffer_bytes)


def random_rows(rng, name, n_rows, n_keys, n_times):
    """Return (time, key, arguments, condition)."""
    types, values = VALUES[name]
    more = [None, 0.0, -0.0, math.nan, 1.0]
    return [
        (
            rng.randrange(-n_times, n_times),
            rng.choice([None, *range(n_keys)]),
            [rng.choice(values), *(rng.choice(more) for _ in types[1:])],
            rng.random() < 0.6,
        )
        for _ in range(n_rows)
    ]


def buffer_rows(rows, name, key_type, filtered, dictionaries):
    types, _ = VALUES[name]
    args = [
        pa.array([row[2][i] for row in rows], arrow_type(type_)) for i, type_ in enumerate(types)
    ]
    if dictionaries:
        args = [arg.dictionary_encode() if arg.type == pa.string() else arg for arg in args]
    condition = np.array([row[3] for row in rows], bool) if filtered else None
    return BufferRows(
        np.array([row[0] for row in rows], np.int64),
        [pa.array([None if row[1] is None else str(row[1]) for row in rows], key_type)],
        [[], args],
        [None, condition],
    )


def plain(value):
    return "NaN" if value != value else value


def expected(rows, filtered):
    """Return (key, window end) -> (rows, distinct values), by definition."""
    sets = {}
    for time, key, args, condition in rows:
        end = time // 10 * 10 + 10
        for window_end in range(end, end + 40, 10):
            group = sets.setdefault((None if key is None else str(key), window_end), [0, set()])
            group[0] += 1
            if (condition or not filtered) and None not in args:
                group[1].add(tuple(map(plain, args)))
    return {group: (n, len(values)) for group, (n, values) in sets.items()}


def merge_tables(tables):
    count = Distinct(("values",), Column("distinct", "bigint"), MergeOp.COUNT)
    spec = WindowAggregation(WINDOW, ("key0",), "slice", (Merge(("n",), MergeOp.COUNT), count))
    return {
        (row["key0"], end): (row["n"], row["distinct"])
        for batch in merge_slices(pa.concat_tables(tables), spec)
        for row, end in zip(
            batch.drop_columns(["window_start", "window_end"]).to_pylist(),
            batch["window_end"].cast(pa.int64()).to_pylist(),
            strict=True,
        )
    }


@pytest.mark.parametrize("filtered", [False, True], ids=["all rows", "FILTER"])
@pytest.mark.parametrize("buffer_bytes", [1, 6_000, 64 << 20])
@pytest.mark.parametrize("name", VALUES)
def test_windows_count_the_distinct_values_of_their_rows(name, buffer_bytes, filtered):
    rng = random.Random(f"{name} {buffer_bytes} {filtered}")
    rows = random_rows(rng, name, 1_500, 6, 200)
    buffer = buffer_of(name, [pa.string()], buffer_bytes)
    tables = []
    cuts = sorted(rng.sample(range(1, len(rows)), 12))
    for number, (start, end) in enumerate(pairwise([0, *cuts, len(rows)])):
        batch = buffer_rows(rows[start:end], name, pa.string(), filtered, number % 3 > 0)
        tables += buffer.add(batch)
        assert buffer.pending_bytes <= buffer_bytes
    tables += buffer.flush()
    for table in tables:
        table.validate(full=True)
        assert table.schema == buffer.schema
    assert merge_tables(tables) == expected(rows, filtered)


def test_keys_that_hardly_repeat_keep_the_values_of_each_row():
    rng = random.Random(1)
    rows = [(t, k, [v], True) for k, (t, _, [v], _) in
            enumerate(random_rows(rng, "words", 3_000, 1, 5_000))]  # fmt: skip
    buffer = buffer_of("words", [pa.string()], 64 << 20)
    tables = []
    for start in range(0, len(rows), 500):
        part = buffer_rows(rows[start : start + 500], "words", pa.string(), False, False)
        tables += buffer.add(part)
    tables += buffer.flush()
    assert merge_tables(tables) == expected(rows, False)


def test_a_repeated_value_of_a_slice_is_stored_once():
    buffer = buffer_of("narrow", [pa.string()], 1 << 20)
    rng = np.random.default_rng(5)
    tables = []
    for _ in range(40):
        n = 5_000
        keys = pa.array(["a", "b"]).take(pa.array(rng.integers(0, 2, n)))
        values = pa.array(rng.integers(0, 100, n), pa.int32())
        times = rng.integers(0, 30, n)
        tables += buffer.add(BufferRows(times, [keys], [[], [values]], [None, None]))
    tables += buffer.flush()
    # 2 keys, 3 slices, 100 values
    assert [(t.num_rows, len(t["values"].combine_chunks().values)) for t in tables] == [(6, 600)]


def test_values_that_are_all_different_leave_the_buffer_when_it_is_full():
    buffer = buffer_of("wide", [pa.string()], 1 << 20)
    tables, n = [], 50_000
    for batch in range(20):
        values = pa.array(np.arange(batch * n, (batch + 1) * n) * 1_000_003)
        rows = BufferRows(
            np.zeros(n, np.int64), [pa.array(["k"] * n)], [[], [values]], [None, None]
        )
        tables += buffer.add(rows)
        assert buffer.pending_bytes <= 1 << 20
    tables += buffer.flush()
    assert len(tables) > 5
    assert merge_tables(tables)["k", 10] == (20 * n, 20 * n)


def test_rows_in_a_gap_between_windows_leave_no_values():
    #  0     3         10    13
    #  [-----)         [-----)        HOP slide 10, size 3
    types = pa.schema([("slice", pa.int64()), ("values", pa.list_(pa.int32()))])
    accumulators = (CollectSet(("values",)),)
    buffer = WindowBuffer(Hop(10, 3), (), "slice", accumulators, types, 1 << 20)
    values = pa.array([5, 6, 7, 5], pa.int32())
    list(buffer.add(BufferRows(np.array([1, 4, 9, 12]), [], [[values]], [None])))
    (table,) = buffer.flush()
    assert table.to_pylist() == [{"slice": 3, "values": [5]}, {"slice": 13, "values": [5]}]
