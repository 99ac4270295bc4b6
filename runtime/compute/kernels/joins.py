"""Positions of rows that match in an equi-join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import Int64Array, normalise_floats, one_chunk, validity
from runtime.compute.kernels.grouping import MAX_CELLS
from runtime.compute.kernels.key_digits import key_digits


def join_positions(
    left: Sequence[pa.Array],
    right: Sequence[pa.Array],
    n_left: int,
    n_right: int,
    most_pairs: int = 1 << 18,
) -> Iterator[tuple[Int64Array, Int64Array]]:
    """Yield the positions, left and right, of each pair of rows with equal keys.

    As in Spark, NULL equals nothing, NaN equals NaN, and -0.0 equals 0.0. Pairs are in the order of
    the left rows, then of the right rows.

    Args:
        left: Key columns of the left side; none pairs all rows.
        right: Key columns of the right side, of the same types.
        n_left: Number of rows on the left.
        n_right: Number of rows on the right.
        most_pairs: Approximate number of pairs to yield at a time. A left row's pairs stay
            together.
    """
    if n_left == 0 or n_right == 0:
        return
    columns = [
        normalise_floats(pa.concat_arrays([one_chunk(a), one_chunk(b)]))
        for a, b in zip(left, right, strict=True)
    ]
    codes = key_digits(columns, n_left + n_right, MAX_CELLS).codes
    has_key = np.ones(n_left + n_right, np.bool_)
    for column in columns:
        if (valid := validity(column)) is not None:
            has_key &= valid
    of_left, of_right = np.flatnonzero(has_key[:n_left]), np.flatnonzero(has_key[n_left:])
    left_codes, right_codes = codes[:n_left][of_left], codes[n_left:][of_right]
    order = np.argsort(right_codes, kind="stable")
    of_right, right_codes = of_right[order], right_codes[order]
    first = np.searchsorted(right_codes, left_codes, side="left")
    n_pairs = np.searchsorted(right_codes, left_codes, side="right") - first
    ends = np.cumsum(n_pairs)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + most_pairs, side="right")))
        counts = n_pairs[start:end]
        n_all = int(ends[end - 1]) - before
        if n_all:
            within = np.arange(n_all) - np.repeat(ends[start:end] - before - counts, counts)
            places = np.repeat(first[start:end], counts) + within
            yield np.repeat(of_left[start:end], counts), of_right[places]
        start = end
