"""Ranks of rows within groups: ROW_NUMBER, RANK, DENSE_RANK, vectorised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    float64_values,
    int64_array,
    int64_values,
    integer_storage,
    normalise_floats,
    one_chunk,
    ordered_bytes,
    validity,
)
from runtime.compute.kernels.grouping import MAX_CELLS
from runtime.compute.kernels.key_digits import key_digits
from runtime.plan.arrow_rows import RankedRows
from runtime.spec.expressions import RankOrder

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_ALL_BUT_SIGN = np.int64((1 << 63) - 1)


def order_codes(
    column: pa.Array | pa.ChunkedArray, descending: bool, nulls_first: bool
) -> Int64Array:
    """Return int64[n] codes in the order of the column; equal values, and NULLs, have equal codes.

    As in Spark, NaN is the largest number and -0.0 equals 0.0.
    """
    plain = one_chunk(column)
    if pa.types.is_floating(plain.type):
        plain = _float_order(plain)
    elif pa.types.is_boolean(plain.type):
        plain = plain.cast(pa.int8())
    plain = ordered_bytes(plain)
    if integer_storage(plain.type) is not None and plain.null_count == 0:
        values = int64_values(plain)
        return ~values if descending else values
    ranks = pc.rank(
        plain,
        sort_keys="descending" if descending else "ascending",
        tiebreaker="dense",
    )
    codes: Int64Array = ranks.to_numpy(zero_copy_only=False).astype(np.int64)
    valid = validity(plain)
    if nulls_first and valid is not None:
        codes[~valid] = 0
    return codes


def ranked_rows(
    by: Sequence[pa.Array | pa.ChunkedArray],
    order: Sequence[Int64Array],
    n_rows: int,
    function: str,
    ranks: tuple[int, int],
) -> tuple[Int64Array, Int64Array]:
    """Return the rows whose rank is in `ranks`, group by group in order, and their ranks.

    Args:
        by: Grouping columns; NULLs form a group too.
        order: Codes from `order_codes`, the most significant first. Ties of ROW_NUMBER are broken
            by row position.
        n_rows: Number of rows, at least one.
        function: ROW_NUMBER, RANK or DENSE_RANK.
        ranks: First and last rank to return.
    """
    rows, is_first, is_new = _sort_rows(by, order, n_rows)
    place: Int64Array = np.arange(n_rows)
    group_start = np.maximum.accumulate(np.where(is_first, place, 0))
    if function == "ROW_NUMBER":
        rank = place - group_start + 1
    elif function == "RANK":
        rank = np.maximum.accumulate(np.where(is_new, place, 0)) - group_start + 1
    else:
        n_new: Int64Array = np.cumsum(is_new)
        rank = n_new - n_new[group_start] + 1
    is_in_range = (rank >= ranks[0]) & (rank <= ranks[1])
    return rows[is_in_range], rank[is_in_range]


def first_places(
    by: Sequence[pa.Array | pa.ChunkedArray],
    columns: Mapping[str, pa.Array] | pa.Table,
    order: Sequence[RankOrder],
    function: str,
    last: int,
) -> Int64Array:
    """Return the positions of the rows whose rank is at most `last`, ascending.

    Arguments as in `ranked_rows`, with the columns by name. The parts of the order after the first
    one are computed only for rows that tie at the last rank.
    """
    is_lazy = function == "ROW_NUMBER" and len(order) > 1
    leading = [
        order_codes(columns[part.column], *part.direction)
        for part in (order[:1] if is_lazy else order)
    ]
    n_rows = len(columns[order[0].column])
    if not is_lazy:
        return np.sort(ranked_rows(by, leading, n_rows, function, (1, last))[0])
    rows, is_first, is_new = _sort_rows(by, leading, n_rows)
    place: Int64Array = np.arange(n_rows)
    group_start = np.maximum.accumulate(np.where(is_first, place, 0))
    may_be_first = np.maximum.accumulate(np.where(is_new, place, 0)) - group_start < last
    is_tied = may_be_first & (place - group_start >= last)
    chosen = rows[place - group_start < last]
    if is_tied.any():
        has_ties = np.zeros(n_rows, np.bool_)
        has_ties[group_start[is_tied]] = True
        tied = np.sort(rows[may_be_first & has_ties[group_start]])
        index = pa.array(tied)
        codes = [
            order_codes(one_chunk(columns[part.column]).take(index), *part.direction)
            for part in order
        ]
        of_tied = [one_chunk(column).take(index) for column in by]
        best, _ = ranked_rows(of_tied, codes, len(tied), function, (1, last))
        others = rows[may_be_first & ~has_ties[group_start]]
        chosen = np.concatenate([tied[best], others])
    return np.sort(chosen)


def codes_of(rows: pa.RecordBatch | pa.Table, order: Sequence[RankOrder]) -> list[Int64Array]:
    """Return the codes of each part of an order, see `order_codes`."""
    columns = ((rows.column(part.column), part) for part in order)
    return [order_codes(c, *part.direction) for c, part in columns]


def rank_rows(rows: Rows, of: RankedRows) -> Rows:
    """Return the rows with a requested rank, and the rank as last column, in the order of ranks."""
    if not rows.num_rows:
        return rows.append_column(of.column, pa.array([], pa.int32()))
    by = [rows.column(name) for name in of.by]
    places, ranks = ranked_rows(by, codes_of(rows, of.order), rows.num_rows, of.function, of.ranks)
    ranked = rows.take(int64_array(places, None, pa.int64()))
    return ranked.append_column(of.column, int64_array(ranks, None, pa.int32()))


def _sort_rows(
    by: Sequence[pa.Array | pa.ChunkedArray], order: Sequence[Int64Array], n_rows: int
) -> tuple[Int64Array, BoolArray, BoolArray]:
    """Return the rows sorted by group and order, and where group or order change."""
    keys = key_digits([one_chunk(column) for column in by], n_rows, MAX_CELLS)
    group = keys.codes
    lows = [int(codes.min()) for codes in order]
    widths = [int(codes.max()) - low + 1 for low, codes in zip(lows, order, strict=True)]
    row_bits = (n_rows - 1).bit_length()
    if prod((keys.n_codes, *widths)) << row_bits > MAX_CELLS:
        rows = np.lexsort((*reversed(order), group))
        is_first = _changes(group[rows])
        is_new = is_first.copy()
        for codes in order:
            is_new |= _changes(codes[rows])
        return rows, is_first, is_new
    # combine all in one number: sorting plain numbers is several times faster than a multi-key sort
    packed = group.copy()
    for low, width, codes in zip(lows, widths, order, strict=True):
        packed *= width
        packed += codes - low
    packed <<= row_bits
    packed |= np.arange(n_rows)
    packed.sort()
    rows = packed & ((1 << row_bits) - 1)
    packed >>= row_bits
    return rows, _changes(packed // prod(widths)), _changes(packed)


def _changes(values: Int64Array) -> BoolArray:
    """Return True where a value differs from the previous one, and for the first."""
    changes = np.ones(len(values), np.bool_)
    changes[1:] = values[1:] != values[:-1]
    return changes


def _float_order(column: pa.Array) -> pa.Array:
    """Return integers in the order of the floats: their bits, inverted for negative numbers."""
    column = normalise_floats(column.cast(pa.float64()))
    bits = np.ascontiguousarray(float64_values(column)).view(np.int64)
    ordered = np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)
    return int64_array(ordered, validity(column), pa.int64())
