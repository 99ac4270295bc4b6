"""Accumulators: combine, reduce and scan, compared with merging the same rows one by one."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.accumulators import accumulator
from runtime.compute.accumulators.base import InvertibleAccumulator
from runtime.compute.accumulators.segments import Segments
from runtime.errors import ExecutionError
from runtime.spec.aggregates import Merge, MergeMoments, MergeOp
from tests.runtime.compute.aggregates import CASES, same

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def state_of(case, rows):
    merge = accumulator(case.spec, list(case.types))
    return merge, merge.from_arrow(case.columns(rows))


def results(case, merge, state):
    columns = merge.to_arrow(state)
    assert [c.type for c in columns] == list(case.types)[-len(columns) :]
    for column in columns:
        column.validate(full=True)
    return case.results(columns)


def runs(lengths):
    ends = np.cumsum(lengths)
    return [(int(e) - n, int(e)) for n, e in zip(lengths, ends, strict=True)]


def assert_all_same(actual, expected):
    assert len(actual) == len(expected)
    wrong = [pair for pair in zip(actual, expected, strict=True) if not same(*pair)]
    assert not wrong


@pytest.mark.variants(4)
@every_case
@given(data=st.data())
def test_runs_of_rows_reduce_to_the_merge_of_their_rows(case, data):
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    rows = data.draw(st.lists(case.values, min_size=sum(lengths), max_size=sum(lengths)))
    merge, state = state_of(case, rows)
    reduced = merge.reduce_runs(state, np.array([a for a, _ in runs(lengths)]))
    expected = [case.merge(rows[a:b]) for a, b in runs(lengths)]
    assert_all_same(results(case, merge, reduced), expected)


@pytest.mark.variants(9)
@every_case
@given(data=st.data())
def test_scans_give_every_prefix_and_every_suffix_of_every_segment(case, data):
    lengths = data.draw(
        st.one_of(
            st.lists(st.integers(1, 40), min_size=1, max_size=4),
            st.tuples(st.integers(1, 5), st.integers(1, 20)).map(lambda nw: [nw[1]] * nw[0]),
        )
    )
    n_distinct = min(sum(lengths), 12)
    few = data.draw(st.lists(case.values, min_size=n_distinct, max_size=n_distinct))
    rows = [few[i * 7 % n_distinct] for i in range(sum(lengths))]
    merge, state = state_of(case, rows)
    segments = Segments(np.array([a for a, _ in runs(lengths)]), len(rows))
    prefixes = [case.merge(rows[a : i + 1]) for a, b in runs(lengths) for i in range(a, b)]
    suffixes = [case.merge(rows[i:b]) for a, b in runs(lengths) for i in range(a, b)]
    assert_all_same(results(case, merge, merge.scan(state, segments)), prefixes)
    assert_all_same(results(case, merge, merge.scan(state, segments, reverse=True)), suffixes)


@pytest.mark.variants(11)
@every_case
@given(data=st.data())
def test_combine_is_associative_and_has_an_identity(case, data):
    rows = data.draw(st.lists(case.values, min_size=3, max_size=3))
    merge, state = state_of(case, rows)
    a, b, c = (merge.take(state, slice(i, i + 1)) for i in range(3))
    left = merge.combine(merge.combine(a, b), c)
    right = merge.combine(a, merge.combine(b, c))
    assert_all_same(results(case, merge, left), [case.merge(rows)])
    assert_all_same(results(case, merge, right), [case.merge(rows)])
    identity = merge.identity(state)
    for alone in (merge.combine(a, identity), merge.combine(identity, a)):
        assert repr(results(case, merge, alone)) == repr(results(case, merge, a))


@pytest.mark.variants(9)
@every_case
@given(data=st.data())
def test_subtraction_is_exact(case, data):
    rows = data.draw(st.lists(case.values, min_size=2, max_size=2))
    merge, state = state_of(case, rows)
    if not isinstance(merge, InvertibleAccumulator):
        assert not hasattr(merge, "subtract")
        return
    a, b = (merge.take(state, slice(i, i + 1)) for i in range(2))
    rest = merge.subtract(merge.combine(a, b), a)
    assert results(case, merge, rest) == results(case, merge, b)


def sum_of(values, type_, kind="sum", column="price"):
    merge = accumulator(Merge((column,), MergeOp(kind)), [type_])
    state = merge.from_arrow([pa.chunked_array([pa.array(values, type_)])])
    return merge.to_arrow(merge.reduce_runs(state, np.array([0])))[0][0].as_py()


def test_an_integer_sum_is_exact_up_to_the_last_value_that_fits():
    largest = 2**63 - 1
    assert sum_of([largest, largest, -largest], pa.int64()) == largest
    assert sum_of([-largest, -1, -1, 1], pa.int64()) == -(2**63)
    for values in ([largest, 1], [-largest, -2], [largest] * 5):
        with pytest.raises(ExecutionError, match=r"SUM overflows BIGINT in column price"):
            sum_of(values, pa.int64())


def test_an_overflow_does_not_name_the_column_of_a_sum_without_an_alias():
    with pytest.raises(ExecutionError, match=r"^SUM overflows BIGINT\n"):
        sum_of([2**63 - 1, 1], pa.int64(), column="$agg0$sum")


def test_a_sum_in_a_narrow_column_must_fit_that_column():
    with pytest.raises(ExecutionError, match="SUM overflows INT in column price"):
        sum_of([2**31 - 1, 1], pa.int32())


@pytest.mark.parametrize("precision", [4, 18, 19, 38])
def test_a_decimal_sum_has_no_more_digits_than_its_type(precision):
    type_ = pa.decimal128(precision, 2)
    nines = "9" * (precision - 2) + ".99"
    # Literals, because Python's decimals round to 28 digits.
    largest, smallest = Decimal(nines), Decimal("-" + nines)
    cent = Decimal("0.01")
    assert sum_of([largest, cent, -cent], type_) == largest
    assert sum_of([smallest, smallest, largest], type_) == smallest
    for values in ([largest, cent], [smallest, -cent], [largest] * 9):
        with pytest.raises(ExecutionError, match=rf"SUM overflows DECIMAL\({precision},2\)"):
            sum_of(values, type_)


def test_counts_of_no_rows_are_0_and_sums_are_null():
    assert sum_of([None, None], pa.int64(), "count") == 0
    assert sum_of([None, None], pa.int64()) is None


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_extremes_of_timestamps_keep_unit_and_zone(unit, zone):
    type_ = pa.timestamp(unit, zone)
    column = pa.array([5, None, -7, 3]).cast(type_)
    merge = accumulator(Merge(("t",), MergeOp.MIN), [type_])
    (table,) = merge.to_arrow(merge.reduce_runs(merge.from_arrow([column]), np.array([0, 1, 2])))
    assert table.equals(pa.array([5, None, -7]).cast(type_))


def test_extremes_of_a_column_without_a_type_are_null():
    merge = accumulator(Merge(("x",), MergeOp.MAX), [pa.null()])
    (table,) = merge.to_arrow(merge.from_arrow([pa.nulls(2)]))
    assert table.equals(pa.nulls(2))


def test_sums_of_doubles_do_not_accumulate_cancellation():
    # A difference of running sums would give 0.0 for the second segment.
    merge = accumulator(Merge(("x",), MergeOp.SUM), [pa.float64()])
    state = merge.from_arrow([pa.array([1e300, 1.0, 2.0, math.inf, 3.0])])
    scanned = merge.scan(state, Segments(np.array([0, 1, 3, 4]), 5))
    assert merge.to_arrow(scanned)[0].to_pylist() == [1e300, 1.0, 3.0, math.inf, 3.0]


def test_moments_of_many_large_values_do_not_cancel():
    rng = np.random.default_rng(1)
    values = 1e9 + rng.random(10_000)
    columns = [pa.array(np.ones(10_000, np.int64)), pa.array(values), pa.array(np.zeros(10_000))]
    merge = accumulator(MergeMoments(("n", "mean", "m2")), [c.type for c in columns])
    state = merge.reduce_runs(merge.from_arrow(columns), np.array([0]))
    m2 = merge.to_arrow(state)[2][0].as_py()
    assert m2 / 10_000 == pytest.approx(np.var(values - 1e9), rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "type_", "message"),
    [
        ("sum", pa.string(), "SUM cannot merge column x of type string"),
        ("count", pa.float64(), "COUNT cannot merge column x of type double"),
        ("bit_or", pa.float64(), "BIT_OR cannot merge column x of type double"),
    ],
)
def test_a_type_that_cannot_be_merged_is_named(kind, type_, message):
    with pytest.raises(ExecutionError, match=message):
        accumulator(Merge(("x",), MergeOp(kind)), [type_])
