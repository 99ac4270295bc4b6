"""Rows that match in an equi-join."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from runtime.compute.kernels.joins import join_positions

LEFT = [("a", 1.0), ("b", 0.0), (None, 2.0), ("c", math.nan), ("a", 1.0), ("b", None)]
RIGHT = [("a", 1.0), ("a", 1.0), ("b", -0.0), (None, 2.0), ("c", math.nan), ("d", 9.0)]


def key(row: tuple[str | None, float | None]) -> object:
    text, number = row
    return text, "NaN" if number is not None and math.isnan(number) else number


def columns(rows: list[tuple[str | None, float | None]]) -> list[pa.Array]:
    texts, numbers = zip(*rows, strict=True)
    return [pa.array(texts, pa.string()), pa.array(numbers, pa.float64())]


@pytest.mark.parametrize("most_pairs", [1, 2, 3, 100])
def test_rows_with_equal_keys_match_and_null_matches_nothing(most_pairs: int) -> None:
    pairs = [
        (int(left), int(right))
        for part in join_positions(columns(LEFT), columns(RIGHT), 6, 6, most_pairs)
        for left, right in zip(*part, strict=True)
    ]
    assert pairs == [
        (i, j)
        for i, left in enumerate(LEFT)
        for j, right in enumerate(RIGHT)
        if key(left) == key(right) and None not in left
    ]


@pytest.mark.parametrize(("n_left", "n_right"), [(0, 3), (3, 0), (0, 0)])
def test_an_empty_side_has_no_matches(n_left: int, n_right: int) -> None:
    sides = [[pa.array(range(n), pa.int64())] for n in (n_left, n_right)]
    assert not list(join_positions(*sides, n_left, n_right))


def test_without_keys_all_rows_match() -> None:
    ((left, right),) = join_positions([], [], 2, 3)
    assert np.array_equal(left, [0, 0, 0, 1, 1, 1]) and np.array_equal(right, [0, 1, 2] * 2)
