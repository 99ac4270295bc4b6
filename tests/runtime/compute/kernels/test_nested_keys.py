"""Arrays and structs as keys and in an order, against lists and dicts of Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.kernels.conversions import ranks
from runtime.compute.kernels.gap_fill import fill_gaps
from runtime.compute.kernels.joins import join_positions
from runtime.compute.kernels.key_digits import key_digits
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.kernels.ranks import order_codes
from runtime.spec.expressions import Constant
from runtime.spec.filling import FillConstant, GapFilling
from runtime.windows.tumble import Tumble

TYPES = (
    (pa.int8(), st.integers(-2, 2)),
    (pa.string(), st.sampled_from(["", "a", "ab"])),
    (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, 1.5])),
    (pa.bool_(), st.booleans()),
)
MINUTE_US = 60_000_000


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """Draw an array of a nested type, also a slice of one."""
    type_, values = draw(st.sampled_from(TYPES))
    for _ in range(draw(st.integers(1, 2))):
        item = st.none() | values
        if draw(st.booleans()):
            type_, values = pa.list_(type_), st.lists(item, max_size=3)
        else:
            type_ = pa.struct([("a", type_), ("b", pa.int32())])
            values = st.fixed_dictionaries({"a": item, "b": st.sampled_from([None, 1, 2])})
    rows = draw(st.lists(st.none() | values, min_size=1, max_size=9))
    start = draw(st.integers(0, len(rows) - 1))
    return pa.array(rows, type_)[start:]


def compare(one: Any, other: Any) -> int:
    """Compare two values in Spark's order: NULL is the smallest, NaN the largest number."""
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, dict):
        one, other = list(one.values()), list(other.values())
    if isinstance(one, list):
        for a, b in zip(one, other, strict=False):
            if result := compare(a, b):
                return result
        return len(one) - len(other)
    if isinstance(one, float):
        one, other = ((math.isnan(v), 0 if math.isnan(v) else v) for v in (one, other))
    return int((one > other) - (one < other))


@given(columns())
def test_codes_are_equal_where_values_are(column: pa.Array) -> None:
    codes, (distinct,) = encode_keys([column], len(column))
    digits = key_digits([column], len(column), 1 << 62)
    decoded = digits.decode(digits.codes)[0].to_pylist()
    values = column.to_pylist()
    assert len(distinct) == int(codes.max()) + 1
    for i, one in enumerate(values):
        assert compare(one, distinct[int(codes[i])].as_py()) == 0
        assert compare(one, decoded[i]) == 0
        for j, other in enumerate(values):
            is_equal = compare(one, other) == 0
            assert bool(codes[i] == codes[j]) == is_equal
            assert bool(digits.codes[i] == digits.codes[j]) == is_equal


@given(columns(), st.booleans())
def test_codes_have_the_order_of_the_values(column: pa.Array, descending: bool) -> None:
    values = column.to_pylist()
    codes = order_codes(column, descending, nulls_first=not descending)
    rank, ascending = ranks(column)
    for i, one in enumerate(values):
        assert compare(one, ascending[int(rank[i])].as_py()) == 0
        for j, other in enumerate(values):
            sign = compare(one, other)
            assert np.sign(rank[i] - rank[j]) == np.sign(sign)
            assert np.sign(codes[i] - codes[j]) == (-np.sign(sign) if descending else np.sign(sign))


@given(columns())
def test_a_join_pairs_rows_with_equal_keys(column: pa.Array) -> None:
    values = column.to_pylist()
    pairs = {
        (int(i), int(j))
        for left, right in join_positions([column], [column], len(column), len(column))
        for i, j in zip(left, right, strict=True)
    }
    assert pairs == {
        (i, j)
        for i, one in enumerate(values)
        for j, other in enumerate(values)
        if one is not None and other is not None and compare(one, other) == 0
    }


@pytest.mark.parametrize(
    ("keys", "type_"),
    [
        (([1, None], [1, None], [2]), pa.list_(pa.int32())),
        (({"a": -0.0}, {"a": 0.0}, None), pa.struct([("a", pa.float64())])),
    ],
    ids=["array", "struct"],
)
def test_gaps_are_filled_by_nested_keys(keys: tuple[Any, ...], type_: pa.DataType) -> None:
    ends = [MINUTE_US, 3 * MINUTE_US, 5 * MINUTE_US]
    rows = pa.record_batch(
        [
            pa.array(keys, type_),
            pa.array([end - MINUTE_US for end in ends], pa.timestamp("us")),
            pa.array(ends, pa.timestamp("us")),
            pa.array([1, 1, 1]),
        ],
        names=["k", "start", "end", "n"],
    )
    fill = GapFilling(
        Tumble(MINUTE_US), ("k",), "start", "end", (("n", FillConstant(Constant(0, "bigint"))),)
    )
    table = pa.Table.from_batches(list(fill_gaps(rows, fill, "UTC")))
    end = table["end"].cast(pa.int64()).to_pylist()
    filled = sorted(zip(end, table["n"].to_pylist(), table["k"].to_pylist(), strict=True))
    assert [(end // MINUTE_US, n) for end, n, _ in filled] == [(1, 1), (2, 0), (3, 1), (5, 1)]
    assert all(compare(key, keys[0]) == 0 for _, _, key in filled[:3])
