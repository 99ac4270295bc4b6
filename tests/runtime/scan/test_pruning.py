"""Statistics exclude row groups only if no row can match."""

from __future__ import annotations

import math

import pytest

from runtime.scan.pruning import ValueRange, can_be_true
from runtime.spec.expressions import Call, ColumnRef, Constant

OPERATORS = ("=", "<", "<=", ">", ">=")


def holds(function: str, values: ValueRange, literal: float) -> bool:
    condition = Call(function, (ColumnRef("d", "double"), Constant(literal, "double")), "boolean")
    return can_be_true(condition, {"d": values}.get)


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize(("low", "high"), [(math.nan, math.nan), (1.0, math.nan), (math.nan, 1.0)])
def test_nan_bounds_prune_no_row_group(function: str, low: float, high: float) -> None:
    assert holds(function, ValueRange(low, high, 0, 2), 5.0)


@pytest.mark.parametrize("function", OPERATORS)
def test_nan_in_a_condition_prunes_no_row_group(function: str) -> None:
    assert holds(function, ValueRange(1.0, 2.0, 0, 2), math.nan)


def test_a_row_group_may_hold_nan_beyond_its_bounds() -> None:
    assert holds(">", ValueRange(1.0, 2.0, 0, 3, has_nan=True), 2.0)
    assert not holds(">", ValueRange(1.0, 2.0, 0, 3), 2.0)
    assert not holds("<", ValueRange(1.0, 2.0, 0, 3, has_nan=True), 1.0)


@pytest.mark.parametrize("bound", [0.0, -0.0])
@pytest.mark.parametrize("literal", [0.0, -0.0])
@pytest.mark.parametrize("function", ["=", "<=", ">="])
def test_both_zeros_are_equal(function: str, bound: float, literal: float) -> None:
    assert holds(function, ValueRange(bound, bound, 0, 2), literal)
