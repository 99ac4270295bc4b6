"""Counts and sums of distinct values over windows, compared with brute force."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.kernels.merge import merge_slices, merged_schema
from runtime.compute.kernels.slices import PART_ROWS
from runtime.errors import ExecutionError
from runtime.spec.aggregates import Distinct, Merge, MergeOp, WindowAggregation
from runtime.spec.table import Column
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.marks import among
from tests.runtime.compute.kernels.test_merge_slices import (
    KEYS,
    WINDOWS,
    brute_force,
    canonical,
    slice_end_of,
)

NAN, INF = math.nan, math.inf
LARGEST = 2**63 - 1


def count_of(column):
    return Distinct((column,), Column(f"count {column}", "bigint"), MergeOp.COUNT)


def sum_of(column, type_):
    return Distinct((column,), Column(f"sum {column} {type_}", type_), MergeOp.SUM)


def lists(window, key_types, rows, types):
    """Return one row of lists per input row (key, time, lists), several for a key and slice."""
    columns = {
        f"k{i}": pa.array([key[i] for key, _, _ in rows], t) for i, t in enumerate(key_types)
    }
    columns["s"] = pa.array([slice_end_of(window, t) for _, t, _ in rows], pa.int64())
    for i, (name, type_) in enumerate(types.items()):
        columns[name] = pa.array([values[i] for _, _, values in rows], pa.list_(type_))
    return pa.table(columns)


def merge_windows(table, window, n_keys, accumulators, max_rows=65_536, part_rows=PART_ROWS):
    """Return {(key, start, end): results} in the order of the accumulators."""
    spec = WindowAggregation(window, tuple(f"k{i}" for i in range(n_keys)), "s", accumulators)
    result = {}
    for batch in merge_slices(table, spec, max_rows, part_rows=part_rows):
        batch.validate(full=True)
        assert batch.schema == merged_schema(table.schema, spec)
        for row in zip(*(_plain(column) for column in batch.columns), strict=True):
            where = (canonical(row[:n_keys]), row[n_keys], row[n_keys + 1])
            assert where not in result
            result[where] = list(row[n_keys + 2 :])
    return result


def _plain(column):
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return column.to_pylist()


def distinct(values):
    """Return the distinct values: NaN equals NaN, -0.0 equals 0.0, structs are tuples."""

    def plain(value):
        if isinstance(value, dict):
            return tuple((name, plain(field)) for name, field in sorted(value.items()))
        return "NaN" if value != value else value

    return {plain(value) for value in values}


def double_sum(values):
    numbers = [NAN if value == "NaN" else value for value in values]
    if all(map(math.isfinite, numbers)):
        return float(sum(map(Fraction, numbers)))
    return sum(numbers)


def same(actual, expected):
    if isinstance(expected, float) and actual is not None:
        both_nan = math.isnan(expected) and math.isnan(actual)
        return both_nan or math.isclose(actual, expected, rel_tol=1e-12, abs_tol=1e-9)
    return actual == expected


class Lists:
    """A case for `brute_force` that keeps the rows' lists."""

    merge = staticmethod(list)


def expected(window, rows, results):
    """Return `results` of each column's distinct values, for each window with rows."""
    n_columns = len(rows[0][2]) if rows else 0
    return {
        where: results(*(distinct(v for one in column for v in one or ()) for column in columns))
        for where, columns in brute_force(window, rows, [Lists] * n_columns).items()
    }


def assert_same(actual, wanted):
    assert set(actual) == set(wanted)
    wrong = [
        (where, actual[where], wanted[where])
        for where in actual
        if not all(map(same, actual[where], wanted[where]))
    ]
    assert not wrong


times = st.one_of(st.integers(-30, 30), st.integers(-300, 300))
numbers = st.lists(st.integers(-4, 4), max_size=3)
doubles = st.lists(st.sampled_from([0.0, -0.0, NAN, INF, -INF, 1.5, -2.25, 1e300]), max_size=3)


@pytest.mark.variants(7)
@pytest.mark.parametrize("window", among(WINDOWS, slow=[Hop(1, 60)]), ids=str)
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@given(data=st.data())
def test_a_value_counts_once_in_every_window_that_it_is_in(window, keys, data):
    key_types, key = keys
    values = st.tuples(st.none() | numbers, doubles)
    rows = data.draw(st.lists(st.tuples(key, times, values), max_size=14))
    accumulators = (count_of("i"), sum_of("i", "bigint"), count_of("d"), sum_of("d", "double"))
    table = lists(window, key_types, rows, {"i": pa.int64(), "d": pa.float64()})
    max_rows = data.draw(st.sampled_from([1, 7, 65_536]))
    assert_same(
        merge_windows(table, window, len(key_types), accumulators, max_rows),
        expected(
            window,
            rows,
            lambda i, d: [len(i), sum(i) if i else None, len(d), double_sum(d) if d else None],
        ),
    )


TYPES = {
    "tinyint": (pa.int8(), st.integers(-128, 127)),
    "bigint": (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, LARGEST])),
    "boolean": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.sampled_from(["", "a", "b", "ß"])),
    "binary": (pa.binary(), st.sampled_from([b"", b"\0", b"a"])),
    "float": (pa.float32(), st.sampled_from([0.0, -0.0, NAN, 1.5])),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), st.sampled_from([0, 1, 10**15])),
    "decimal": (pa.decimal128(38, 0), st.sampled_from([Decimal(0), Decimal(10**37)])),
    "struct": (
        pa.struct([("a", pa.float64()), ("b", pa.string())]),
        st.fixed_dictionaries(
            {"a": st.sampled_from([0.0, -0.0, NAN, None]), "b": st.sampled_from(["x", None])}
        ),
    ),
}


@pytest.mark.parametrize("type_", TYPES)
@given(data=st.data())
def test_values_of_every_type_are_distinguished(type_, data):
    arrow_type, value = TYPES[type_]
    window = data.draw(st.sampled_from([Hop(3, 10), Cumulate(3, 12), Tumble(10)]))
    key_types, key = KEYS["string"]
    values = st.tuples(st.lists(value, max_size=3))
    rows = data.draw(st.lists(st.tuples(key, times, values), max_size=10))
    table = lists(window, key_types, rows, {"x": arrow_type})
    result = merge_windows(table, window, 1, (count_of("x"),))
    assert_same(result, expected(window, rows, lambda x: [len(x)]))


@pytest.mark.variants(9)
@pytest.mark.parametrize(
    "window",
    [Tumble(7, -3), Hop(3, 10), Hop(10, 4, 3), Hop(1, 64), Hop(7, 60), Cumulate(3, 12, 5)],
    ids=str,
)
@pytest.mark.parametrize("density", [0.03, 0.3, 1.0])
@pytest.mark.parametrize("part_rows", [10, 1 << 17])
def test_many_keys_with_rare_and_with_frequent_values(window, density, part_rows):
    rng = np.random.default_rng(int(density * 100))
    n_times, n_keys = 40, 25
    cells = rng.permutation(np.flatnonzero(rng.random(n_times * n_keys) < density))
    rows = [
        (
            (str(cell // n_times),),
            int(cell % n_times) * 3 - 60,
            (
                rng.integers(0, 1 << rng.integers(1, 8), rng.integers(0, 4)).tolist(),
                rng.choice([0.5, 1e15, -1.0, NAN], rng.integers(0, 2)).tolist(),
            ),
        )
        for cell in cells
    ]
    table = lists(window, (pa.string(),), rows, {"i": pa.int16(), "d": pa.float64()})
    accumulators = (sum_of("d", "double"), count_of("i"), sum_of("i", "double"))
    assert_same(
        merge_windows(table, window, 1, accumulators, part_rows=part_rows),
        expected(
            window,
            rows,
            lambda i, d: [double_sum(d) if d else None, len(i), float(sum(i)) if i else None],
        ),
    )


@given(st.lists(st.tuples(times, st.lists(st.sampled_from([LARGEST, -LARGEST, 7, 1]))), max_size=8))
def test_integers_sum_up_exactly_and_only_a_window_can_overflow(points):
    window = Hop(3, 10)
    rows = [((), t, (values,)) for t, values in points]
    table = lists(window, (), rows, {"i": pa.int64()})
    expected_rows = expected(window, rows, lambda i: [sum(i) if i else None])
    if any(total is not None and abs(total) > LARGEST for (total,) in expected_rows.values()):
        with pytest.raises(ExecutionError, match="SUM overflows BIGINT in column i"):
            merge_windows(table, window, 0, (sum_of("i", "bigint"),))
    else:
        assert merge_windows(table, window, 0, (sum_of("i", "bigint"),)) == expected_rows
    as_double = {where: [None if v is None else float(v)] for where, (v,) in expected_rows.items()}
    assert_same(merge_windows(table, window, 0, (sum_of("i", "double"),)), as_double)


@given(
    st.lists(
        st.tuples(times, st.lists(st.integers(-5, 5).map(lambda n: Decimal(n * 10**30) / 100))),
        max_size=8,
    )
)
def test_decimals_sum_up_exactly_to_the_wider_type(points):
    window = Cumulate(3, 12)
    rows = [((), t, (values,)) for t, values in points]
    table = lists(window, (), rows, {"m": pa.decimal128(34, 2)})
    expected_rows = expected(window, rows, lambda m: [sum(m) if m else None])
    assert merge_windows(table, window, 0, (sum_of("m", "decimal(38,2)"),)) == expected_rows


def test_a_value_that_returns_in_time_stays_present():
    #  0    10   20   30   40   50   60
    #  x         x              y              HOP(slide 10, size 30)
    #  [--------------)  x once in [-20, 10) .. [20, 50), y in [30, 60) .. [50, 80)
    rows = [((), 0, ([5],)), ((), 20, ([5],)), ((), 50, ([6],))]
    window = Hop(10, 30)
    table = lists(window, (), rows, {"x": pa.int64()})
    result = merge_windows(table, window, 0, (count_of("x"), sum_of("x", "bigint")))
    assert [results for _, results in sorted(result.items())] == [
        [1, 5], [1, 5], [1, 5], [1, 5], [1, 5], [1, 6], [1, 6], [1, 6]
    ]  # fmt: skip


def test_a_window_whose_lists_are_empty_counts_zero_and_sums_up_to_null():
    rows = [((), 0, ([],)), ((), 100, (None,)), ((), 200, ([1],))]
    table = lists(Tumble(10), (), rows, {"x": pa.int64()})
    accumulators = (count_of("x"), sum_of("x", "bigint"), sum_of("x", "double"))
    result = merge_windows(table, Tumble(10), 0, accumulators)
    assert [results for _, results in sorted(result.items())] == [
        [0, None, None], [0, None, None], [1, 1, 1.0]
    ]  # fmt: skip


def test_accumulators_keep_the_requested_order():
    table = lists(Hop(10, 20), (), [((), 0, ([1, 2],)), ((), 10, ([2],))], {"x": pa.int64()})
    table = table.append_column("n", pa.array([4, 1]))
    accumulators = (count_of("x"), Merge(("n",), MergeOp.COUNT), sum_of("x", "bigint"))
    result = merge_windows(table, Hop(10, 20), 0, accumulators)
    assert [results for _, results in sorted(result.items())] == [[2, 4, 3], [2, 5, 3], [1, 1, 2]]


def test_strings_do_not_sum_up():
    table = lists(Tumble(10), (), [((), 0, (["a"],))], {"x": pa.string()})
    with pytest.raises(ExecutionError, match="cannot merge column x of type string"):
        merge_windows(table, Tumble(10), 0, (sum_of("x", "bigint"),))
