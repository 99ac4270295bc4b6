"""Comparison of rows: symmetric, and no value passes for another one."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import ExecutionError
from runtime.simulator.compare import difference, final_rows, is_same, limited_difference

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
# Values that differ from each other, of every kind of SQL type
PLAIN = [
    *(None, True, False, 0, 1, -1, "", "0", "NULL", b"", b"0", Decimal("0.5"), Decimal("1.25")),
    *(date(2024, 1, 1), datetime(2024, 1, 1), NOON, timedelta(0), timedelta(1)),  # noqa: DTZ001
    *(0.0, 1.0, -1.0, 1e-9, 1 + 1e-6, 1e300, math.inf, -math.inf, math.nan),
]
VALUES = [
    *PLAIN,
    *([], [None, None], {"x": None, "y": None}),
    *([value] for value in PLAIN),
    *({"x": value} for value in PLAIN),
    *([("key", value)] for value in PLAIN),
    *([{"x": [value]}] for value in PLAIN),
]
# Values that are equal though they are written in two ways
EQUAL = [
    (0.0, -0.0),
    (1.0, 1.0 + 1e-12),
    (1e20, 1e20 + 1e9),
    (0.1 + 0.2, 0.3),
    ([1.0, math.nan], [1.0 + 1e-12, math.nan]),
    ({"x": 1.0, "y": None}, {"y": None, "x": 1.0 - 1e-12}),
    ([("a", 1.0), ("b", None)], [("b", None), ("a", 1.0 + 1e-12)]),
    ([{"x": [0.0]}], [{"x": [-0.0]}]),
    (Decimal("1.0"), Decimal("1.00")),
    (NOON, datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))),
]
# Values that are close but not within the tolerance
UNEQUAL = [(1.0, 1 + 1e-8), (0.0, 1e-11), (1e20, 1.00000001e20), (1e308, math.inf), ([1.0], [1.1])]


def agree(one: object, other: object) -> bool:
    """Return whether two values are equal, after checking all ways to compare them."""
    left, right = [{"v": one}], [{"v": other}]
    answer = is_same(one, other)
    assert is_same(other, one) == answer
    assert (difference(left, right) is None) == answer
    assert (difference(right, left) is None) == answer
    assert (limited_difference(left * 2, right, 1) is None) == answer
    changes = [{"$row_kind": "+I", "v": one}, {"$row_kind": "-U", "v": other}]
    if answer:
        assert final_rows(changes) == []
    else:
        with pytest.raises(ExecutionError, match="retracts a row that it has not emitted"):
            final_rows(changes)
    return answer


def test_a_value_equals_only_itself():
    for place, one in enumerate(VALUES):
        for other in VALUES[place:]:
            assert agree(one, other) == (one is other), (one, other)


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_values_that_sql_calls_equal_are_equal(one, other):
    assert agree(one, other)


@pytest.mark.parametrize(("one", "other"), UNEQUAL)
def test_numbers_beyond_the_tolerance_differ(one, other):
    assert not agree(one, other)


def test_a_change_takes_back_its_own_row_and_not_a_null():
    changes = [
        {"$row_kind": "+I", "v": None},
        {"$row_kind": "+I", "v": 5.0},
        {"$row_kind": "-U", "v": 5.0},
        {"$row_kind": "+U", "v": 6.0},
    ]
    assert final_rows(changes) == [{"v": None}, {"v": 6.0}]


def test_as_many_rows_as_possible_are_matched():
    # the first row is near both others, the second one only near the first of them
    near, far = 1.0, 1.0 + 0.9e-9
    left = [{"v": near, "w": 1.0}, {"v": far, "w": 1.0 - 0.9e-9}]
    right = [{"v": far, "w": 1.0}, {"v": near, "w": 1.0 + 0.5e-9}]
    assert difference(left, right) is None
    assert difference(right, left) is None


FLOATS = st.sampled_from([None, math.nan, math.inf, 0.0, -0.0, 1.0, 1 + 1e-12, 1 + 1e-6, 2.0])
ROWS = st.lists(st.fixed_dictionaries({"k": st.sampled_from("ab"), "x": FLOATS, "y": FLOATS}))


@settings(max_examples=60, deadline=None)
@given(left=ROWS, right=ROWS)
def test_the_order_of_sides_and_rows_does_not_matter(left, right):
    forth, back = difference(left, right), difference(right[::-1], left[::-1])
    assert (forth is None) == (back is None)
    if forth is not None and back is not None:
        assert len(forth.missing) == len(back.unexpected)
        assert len(forth.unexpected) == len(back.missing)
    assert difference(left, left[::-1]) is None
