"""The window buffer: partials merge to the same results for any batch sizes and any limit."""

import math
import random
import statistics
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from runtime.compute.buffer import BufferRows, WindowBuffer
from runtime.compute.kernels.merge import merge_slices
from runtime.errors import ExecutionError
from runtime.spec.aggregates import Merge, MergeMoments, MergeOp, Pick, WindowAggregation
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble

DECIMAL = pa.decimal128(12, 2)
WORDS = ["", "a", "ab", "b", "é", "zz"]

# name -> (accumulator, types of the arguments, types of the partial columns, expected result)
FUNCTIONS = {
    "rows": (Merge(('rows',), MergeOp.COUNT), [], [pa.int64()], len),
    "count": (Merge(('count',), MergeOp.COUNT), [pa.string()], [pa.int64()],
              lambda rows: len(present(rows))),
    "sum": (Merge(('sum',), MergeOp.SUM), [pa.int32()], [pa.int64()],
            lambda rows: sum(present(rows)) if present(rows) else None),
    "decimals": (Merge(('decimals',), MergeOp.SUM), [DECIMAL], [pa.decimal128(22, 2)],
                 lambda rows: sum(present(rows)) if present(rows) else None),
    "doubles": (Merge(('doubles',), MergeOp.SUM), [pa.float64()], [pa.float64()],
                lambda rows: sum(present(rows)) if present(rows) else None),
    "least": (Merge(('least',), MergeOp.MIN), [pa.float64()], [pa.float64()],
              lambda rows: min(present(rows), key=nan_last, default=None)),
    "greatest": (Merge(('greatest',), MergeOp.MAX), [pa.float64()], [pa.float64()],
                 lambda rows: max(present(rows), key=nan_last, default=None)),
    "word": (Merge(('word',), MergeOp.MAX), [pa.string()], [pa.string()],
             lambda rows: max(present(rows), key=lambda w: w.encode(), default=None)),
    "any": (Merge(('any',), MergeOp.MAX), [pa.bool_()], [pa.bool_()],
            lambda rows: max(present(rows), default=None)),
    "bits": (Merge(('bits',), MergeOp.BIT_XOR), [pa.int32()], [pa.int32()],
             lambda rows: xor(present(rows)) if present(rows) else None),
    "first": (Pick(('first$o', 'first$v'), is_last=False), [pa.int64(), pa.string()],
              [pa.int64(), pa.string()], lambda rows: pick_value(rows, min)),
    "last": (Pick(('last$o', 'last$v'), is_last=True), [pa.int64(), pa.int32()],
             [pa.int64(), pa.int32()], lambda rows: pick_value(rows, max)),
    "last_by_word": (Pick(('by$o', 'by$v'), is_last=True), [pa.string(), pa.int32()],
                     [pa.string(), pa.int32()], lambda rows: pick_value(rows, max)),
    "moments": (MergeMoments(('n', 'mean', 'm2')), [pa.int32()],
                [pa.int64(), pa.float64(), pa.float64()],
                lambda rows: moments(present(rows))),
}  # fmt: skip


def present(values):
    return [value for value in values if value is not None]


def nan_last(value):
    return (math.isnan(value), value)


def xor(values):
    result = 0
    for value in values:
        result ^= value
    return result


def pick_value(rows, pick):
    rows = [row for row in rows if row[0] is not None]
    nulls_first = [(order, (value is not None, value)) for order, value in rows]
    if not rows:
        return None
    best = pick(o for o, _ in nulls_first)
    # None and a value are compared by presence first.
    return pick(v for o, v in nulls_first if o == best)[1]


def moments(values):
    if not values:
        return (0, None, None)
    mean = statistics.fmean(values)
    return (len(values), mean, math.fsum((value - mean) ** 2 for value in values))


def value_of(type_, rng):
    if rng.random() < 0.2:
        return None
    if type_ == pa.string():
        return rng.choice(WORDS)
    if type_ == DECIMAL:
        return Decimal(rng.randrange(-(10**12) + 1, 10**12)).scaleb(-2)
    if type_ == pa.float64():
        return rng.choice([0.0, -0.0, math.nan, math.inf, 1.5, -2.25, 1e300])
    if type_ == pa.bool_():
        return rng.random() < 0.5
    return rng.randrange(-50, 50)


def random_rows(rng, n_rows, n_keys, key_types, n_slices):
    """Return (time, key tuple, argument tuple and condition of each function)."""
    distinct = [tuple(key_of(t, rng, n_keys) for t in key_types) for _ in range(n_keys)]
    return [
        (
            rng.randrange(-5 * n_slices, 5 * n_slices),
            rng.choice(distinct),
            [
                tuple(value_of(t, rng) for t in types) for _, types, _, _ in FUNCTIONS.values()
            ],
            rng.random() < 0.7,
        )
        for _ in range(n_rows)
    ]  # fmt: skip


def key_of(type_, rng, n_keys):
    if rng.random() < 0.1:
        return None
    if type_ == pa.string():
        return f"k{rng.randrange(n_keys)}"
    if type_ == pa.float64():
        return rng.choice([0.0, math.nan, 1.0])
    if type_ == pa.int64():
        return rng.choice([rng.randrange(n_keys), rng.randrange(-(2**63), 2**63)])
    if type_ == pa.bool_():
        return rng.random() < 0.5
    return rng.randrange(n_keys)


def buffer_of(window, key_types, buffer_bytes, functions, **options):
    keys = tuple(f"key{i}" for i in range(len(key_types)))
    fields = [*zip(keys, key_types, strict=True), ("slice", pa.int64())]
    for accumulator, _, types, _ in functions:
        fields += zip(accumulator.columns, types, strict=True)
    accumulators = tuple(accumulator for accumulator, _, _, _ in functions)
    return WindowBuffer(
        window, keys, "slice", accumulators, pa.schema(fields), buffer_bytes, **options
    )


def buffer_rows(rows, key_types, functions, filtered, dictionaries=False):
    keys = [pa.array([row[1][i] for row in rows], t) for i, t in enumerate(key_types)]
    if dictionaries:
        keys = [k.dictionary_encode() if k.type == pa.string() else k for k in keys]
    condition = np.array([row[3] for row in rows], bool)
    return BufferRows(
        np.array([row[0] for row in rows], np.int64),
        keys,
        [
            [pa.array([row[2][f][i] for row in rows], t) for i, t in enumerate(types)]
            for f, (_, types, _, _) in enumerate(functions)
        ],
        [condition if filtered else None for _ in functions],
    )


def comparable(value):
    if isinstance(value, tuple):
        return tuple(map(comparable, value))
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else pytest.approx(value, rel=1e-9, abs=1e-6)
    return value


def frozen(key):
    return tuple("NaN" if isinstance(k, float) and math.isnan(k) else k for k in key)


def expected(rows, window, functions, filtered):
    """Return (key, slice end) -> result of each function."""
    groups = {}
    for time, key, args, condition in rows:
        end = int(window.assigner().slice_end(np.array([time]))[0])
        groups.setdefault((frozen(key), end), []).append((args, condition))
    results = {}
    for group, members in groups.items():
        results[group] = [
            comparable(
                result([
                    args[f][0] if len(types) == 1 else args[f]
                    for args, condition in members
                    if condition or not filtered
                ])
            )
            for f, (_, types, _, result) in enumerate(functions)
        ]  # fmt: skip
    return results


def merge_partials_of(tables, key_types, functions, slice_us):
    """Return the same from partials: the windows of a TUMBLE as wide as a slice."""
    keys = tuple(f"key{i}" for i in range(len(key_types)))
    accumulators = tuple(accumulator for accumulator, _, _, _ in functions)
    spec = WindowAggregation(Tumble(slice_us), keys, "slice", accumulators)
    results = {}
    for batch in merge_slices(pa.concat_tables(tables), spec):
        for row in batch.cast(decimals_as_they_are(batch.schema)).to_pylist():
            end = row["window_end"]
            outputs = [
                tuple(row[c] for c in acc.output_columns)
                if len(acc.output_columns) > 1
                else row[acc.output_columns[0]]
                for acc in accumulators
            ]
            results[frozen(row[k] for k in keys), end] = [
                "NaN" if isinstance(v, float) and math.isnan(v) else v for v in outputs
            ]
    return results


def decimals_as_they_are(schema):
    """Return the schema with window bounds as numbers."""
    return pa.schema(
        [pa.field(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema]
    )


ALL = list(FUNCTIONS.values())
SHAPES = {
    "few cells": ([pa.int32()], 4, 5),
    "more cells than rows": ([pa.int64()], 500, 40_000),
    "strings": ([pa.string()], 20, 5),
    "no key": ([], 1, 10),
    "several keys": ([pa.int32(), pa.string(), pa.float64(), pa.bool_()], 30, 10),
}


@pytest.mark.variants(8)
@pytest.mark.parametrize("filtered", [False, True], ids=["all rows", "FILTER"])
@pytest.mark.parametrize("buffer_bytes", [1, 20_000, 64 << 20])
@pytest.mark.parametrize("shape", SHAPES)
def test_partials_merge_to_the_aggregates_of_the_rows(shape, buffer_bytes, filtered):
    key_types, n_keys, n_slices = SHAPES[shape]
    rng = random.Random(f"{shape} {buffer_bytes} {filtered}")
    rows = random_rows(rng, 1200, n_keys, key_types, n_slices)
    buffer = buffer_of(Tumble(10), key_types, buffer_bytes, ALL)
    tables = []
    cuts = sorted(rng.sample(range(1, len(rows)), 14))
    for number, (start, end) in enumerate(pairwise([0, *cuts, len(rows)])):
        batch = buffer_rows(rows[start:end], key_types, ALL, filtered, dictionaries=number % 3 > 0)
        tables += buffer.add(batch)
        assert buffer.pending_bytes <= buffer_bytes
    tables += buffer.flush()
    assert merge_partials_of(tables, key_types, ALL, 10) == expected(
        rows, Tumble(10), ALL, filtered
    )


def test_partials_are_emitted_unmerged_without_memory(monkeypatch):
    functions = [FUNCTIONS["rows"]]
    rows = [(0, (key,), [()], True) for key in range(1_000)]
    counts = {}
    for case in ("merged", "no memory"):
        buffer = buffer_of(Tumble(10), [pa.int32()], 64 << 20, functions)
        for _ in range(3):
            assert not list(buffer.add(buffer_rows(rows, [pa.int32()], functions, False)))
        if case == "no memory":

            def fail(*args):
                raise pa.ArrowMemoryError("malloc of size 201326592 failed")

            monkeypatch.setattr("runtime.compute.buffer.merge_partials", fail)
        tables = list(buffer.flush())
        counts[case] = sum(table.num_rows for table in tables)
        every = merge_partials_of(tables, [pa.int32()], functions, 10)
        assert every == expected(rows * 3, Tumble(10), functions, False)
    assert counts == {"merged": 1_000, "no memory": 3_000}


def test_a_full_buffer_is_emitted_in_bounded_portions():
    functions = [FUNCTIONS["rows"]]
    buffer = buffer_of(Tumble(10), [pa.int32()], 1 << 18, functions, portion_bytes=1 << 14)
    tables = []
    for first in range(0, 40_000, 4_000):  # every key occurs once, so nothing merges
        rows = [(0, (key,), [()], True) for key in range(first, first + 4_000)]
        tables += buffer.add(buffer_rows(rows, [pa.int32()], functions, False))
    tables += buffer.flush()
    assert max(table.nbytes for table in tables) <= 1 << 14
    keys = [key for table in tables for key in table["key0"].to_pylist()]
    assert sorted(keys) == list(range(40_000))


def test_rows_that_repeat_keys_and_slices_leave_few_partials():
    functions = [FUNCTIONS["rows"]]
    buffer = buffer_of(Tumble(10), [pa.int32()], 1 << 20, functions)
    rng = random.Random(1)
    tables = []
    for _ in range(50):
        rows = [(rng.randrange(100), (rng.randrange(20),), [()], True) for _ in range(2000)]
        tables += buffer.add(buffer_rows(rows, [pa.int32()], functions, False))
    tables += buffer.flush()
    assert sum(table.num_rows for table in tables) == 20 * 10


@pytest.mark.parametrize("window", [Hop(7, 10, 3), Cumulate(5, 20, -1), Hop(10, 10), Hop(4, 12)])
def test_slices_match_the_window(window):
    functions = [FUNCTIONS["rows"]]
    buffer = buffer_of(window, [], 1 << 20, functions)
    times = list(range(-60, 60))
    list(buffer.add(buffer_rows([(t, (), [()], True) for t in times], [], functions, False)))
    (table,) = buffer.flush()
    ends = window.assigner().slice_end(np.array(times)).tolist()
    actual = dict(zip(*table.to_pydict().values(), strict=True))
    assert actual == {end: ends.count(end) for end in ends}


def test_rows_in_a_gap_between_windows_leave_no_partials():
    #  0     3         10    13
    #  [-----)         [-----)        HOP slide 10, size 3
    functions = [FUNCTIONS["rows"]]
    buffer = buffer_of(Hop(10, 3), [], 1 << 20, functions)
    rows = [(t, (), [()], True) for t in (1, 4, 9, 12)]
    list(buffer.add(buffer_rows(rows, [], functions, False)))
    (table,) = buffer.flush()
    assert sorted(table["slice"].to_pylist()) == [3, 13]


@pytest.mark.parametrize("n_rows", [3, 400_000])
def test_a_sum_that_overflows_is_an_error(n_rows):
    sums = [(Merge(("total",), MergeOp.SUM), [pa.int64()], [pa.int64()], sum)]
    buffer = buffer_of(Tumble(10), [], 1 << 20, sums)
    value = 2**63 // n_rows + 1
    rows = BufferRows(np.zeros(n_rows, np.int64), [], [[pa.array([value] * n_rows)]], [None])
    with pytest.raises(ExecutionError, match="SUM overflows BIGINT in column total"):
        list(buffer.add(rows))


def test_minus_zero_and_zero_are_one_key():
    functions = [FUNCTIONS["rows"]]
    buffer = buffer_of(Tumble(10), [pa.float64()], 1 << 20, functions)
    rows = [(0, (key,), [()], True) for key in (-0.0, 0.0, math.nan, -math.nan)]
    list(buffer.add(buffer_rows(rows, [pa.float64()], functions, False)))
    (table,) = buffer.flush()
    keys = table["key0"].to_pylist()
    assert [str(key) for key in keys] == ["0.0", "nan"]
    assert table["rows"].to_pylist() == [2, 2]
