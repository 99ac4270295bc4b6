"""Joins of rows that are held in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.batches import BATCH_ROWS, numbers, plain_batches
from runtime.compute.arrow.evaluate import filter_mask
from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    normalise_floats,
    one_chunk,
    validity,
)
from runtime.compute.kernels.grouping import MAX_CELLS
from runtime.compute.kernels.key_digits import key_digits
from runtime.compute.kernels.ranks import order_codes
from runtime.plan.arrow_rows import AsOfRows, JoinedRows
from runtime.spec.filling import AsOfMatching


def join_rows(
    left: pa.RecordBatch, right: pa.RecordBatch, of: JoinedRows, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join, with the columns of both sides or, of a filter, of the left one.

    Args:
        left: All rows of the left side.
        right: All rows of the right side.
        of: Keys, condition and type of the join.
        schema: Columns of the result.
    """
    left_keys, right_keys = _keys(left, right, of.keys)
    is_filter = of.join_type in ("LeftSemi", "LeftAnti")
    left_matches = np.zeros(left.num_rows, np.bool_)
    right_matches = np.zeros(right.num_rows, np.bool_)
    for of_left, of_right in join_positions(
        left_keys, right_keys, left.num_rows, right.num_rows, BATCH_ROWS
    ):
        if of.condition is not None or not is_filter:
            pairs = _side_by_side(left, right, of_left, of_right)
            if of.condition is not None:
                holds = filter_mask([of.condition], pairs)
                pairs = pairs.filter(holds)
                mask = holds.to_numpy(zero_copy_only=False)
                of_left, of_right = of_left[mask], of_right[mask]
            if not is_filter:
                yield from plain_batches(pairs, schema)
        left_matches[of_left] = True
        right_matches[of_right] = True
    if is_filter:
        chosen = left_matches == (of.join_type == "LeftSemi")
        yield from plain_batches(left.filter(pa.array(chosen)), schema)
    if of.join_type in ("LeftOuter", "FullOuter"):
        yield from _without_match(left, left_matches, schema, is_left=True)
    if of.join_type in ("RightOuter", "FullOuter"):
        yield from _without_match(right, right_matches, schema, is_left=False)


def join_as_of(
    left: pa.RecordBatch, right: pa.RecordBatch, of: AsOfRows, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield each row of the left side with the nearest row of the right side.

    Args:
        left: All rows of the left side.
        right: All rows of the right side.
        of: Keys and times, and whether rows without a match remain.
        schema: Columns of the result.
    """
    place = _nearest(left, right, of.matching)
    if not of.keeps_all:
        left, place = left.filter(pa.array(place >= 0)), place[place >= 0]
    picked = right.take(pa.array(place, mask=place < 0))
    columns = [*left.columns, *picked.columns]
    yield from plain_batches(pa.RecordBatch.from_arrays(columns, schema.names), schema)


def _nearest(left: pa.RecordBatch, right: pa.RecordBatch, of: AsOfMatching) -> Int64Array:
    """Return the position of the right row that each left row picks, -1 for none."""
    n_left, n_right = left.num_rows, right.num_rows
    keys, has_key = _coded(*_keys(left, right, of.keys), n_left + n_right)
    names = [*(limit for limit, _ in of.limits), of.times[0]]
    columns = [one_chunk(left.column(name)) for name in names]
    # one column, so that the codes of all times can be compared
    times = pa.concat_arrays([*columns, one_chunk(right.column(of.times[1]))])
    codes = order_codes(times, descending=not of.is_before, nulls_first=True)
    is_valid = _is_valid(times)
    *limits, _ = np.split(codes[: n_left * len(names)], len(names))
    has_limit = np.split(is_valid[: n_left * len(names)], len(names))
    time = codes[n_left * (len(names) - 1) :]
    rows = np.flatnonzero(has_key & is_valid[n_left * (len(names) - 1) :])
    is_right = rows >= n_left
    order = np.where(is_right, of.place_of_right, 1)
    ordered = np.lexsort((order, time[rows], keys[rows]))
    rows, is_right = rows[ordered], is_right[ordered]
    last = np.maximum.accumulate(np.where(is_right, np.arange(len(rows)), -1))
    has_match = (last >= 0) & ~is_right
    of_left, of_right = rows[has_match], rows[last[has_match]]
    is_equal = keys[of_left] == keys[of_right]
    of_left, of_right = of_left[is_equal], of_right[is_equal]
    for limit, has_value, (_, has_end) in zip(limits, has_limit, of.limits, strict=False):
        at_right = time[of_right]
        within = at_right >= limit[of_left] if has_end else at_right > limit[of_left]
        within &= has_value[of_left]
        of_left, of_right = of_left[within], of_right[within]
    place = np.full(n_left, -1, np.int64)
    place[of_left] = of_right - n_left
    return place


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
    codes, has_key = _coded(left, right, n_left + n_right)
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


def _coded(
    left: Sequence[pa.Array], right: Sequence[pa.Array], n_rows: int
) -> tuple[Int64Array, BoolArray]:
    """Return a number per row of both sides, equal for equal keys, and whether none is NULL."""
    columns = [
        normalise_floats(pa.concat_arrays([one_chunk(a), one_chunk(b)]))
        for a, b in zip(left, right, strict=True)
    ]
    has_key = np.ones(n_rows, np.bool_)
    for column in columns:
        has_key &= _is_valid(column)
    return key_digits(columns, n_rows, MAX_CELLS).codes, has_key


def _is_valid(column: pa.Array) -> BoolArray:
    valid = validity(column)
    return np.ones(len(column), np.bool_) if valid is None else valid


def _keys(
    left: pa.RecordBatch, right: pa.RecordBatch, pairs: Sequence[tuple[str, str]]
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Return the keys of both sides, cast to common types."""
    keys: tuple[list[pa.Array], list[pa.Array]] = ([], [])
    for of_left, of_right in pairs:
        columns = left.column(of_left), right.column(of_right)
        if columns[0].type != columns[1].type:
            types = [pa.schema([("key", column.type)]) for column in columns]
            common = pa.unify_schemas(types, promote_options="permissive").field(0).type
            columns = columns[0].cast(common), columns[1].cast(common)
        for side, column in zip(keys, columns, strict=True):
            side.append(column)
    return keys


def _side_by_side(
    left: pa.RecordBatch, right: pa.RecordBatch, of_left: Int64Array, of_right: Int64Array
) -> pa.RecordBatch:
    """Return pairs of rows by their positions."""
    sides = left.take(numbers(of_left)), right.take(numbers(of_right))
    columns = [column for side in sides for column in side.columns]
    return pa.RecordBatch.from_arrays(columns, names=[*left.schema.names, *right.schema.names])


def _without_match(
    rows: pa.RecordBatch, has_match: BoolArray, schema: pa.Schema, *, is_left: bool
) -> Iterator[pa.RecordBatch]:
    """Yield a side's rows without a match, with NULL in the other side's columns."""
    alone = rows.filter(pa.array(~has_match))
    fields = list(schema)[rows.num_columns :] if is_left else list(schema)[: -rows.num_columns]
    others = [pa.nulls(alone.num_rows, field.type) for field in fields]
    columns = [*alone.columns, *others] if is_left else [*others, *alone.columns]
    yield from plain_batches(pa.RecordBatch.from_arrays(columns, schema.names), schema)
