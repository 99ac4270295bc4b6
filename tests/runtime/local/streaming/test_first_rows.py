"""Rows stored for a Top-N: dropped rows cannot be in it, and late rows are still counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.buffer import BufferRows
from runtime.compute.kernels.ranks import order_codes, ranked_rows
from runtime.local.streaming.first_rows import FirstRowsOfSlices
from runtime.spec.expressions import FirstRows, RankOrder
from runtime.windows.hop import Hop

# Its slices end at 1, 2, 3 ...
WINDOW = Hop(2, 1)

ROWS = st.lists(
    st.tuples(
        st.integers(1, 3),  # slice
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(-3, 3)),
        # -0.0 and 0.0 tie, and either may be first
        st.floats(allow_nan=True, width=16).map(lambda x: x + 0.0),
        st.integers(1, 4),  # number of occurrences of the row
    ),
    min_size=1,
    max_size=40,
)


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    types = [
        ("slice", pa.int64()),
        ("k", pa.string()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("rows", pa.int64()),
    ]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, t) for c, (_, t) in zip(columns, types, strict=True)]
    ids = pa.array(np.arange(len(rows)))
    return pa.Table.from_arrays([ids, *arrays], names=["id", *(name for name, _ in types)])


def top(rows: pa.Table, first: FirstRows, by: list[str]) -> list[tuple[int, int]]:
    """Return (code of the first order column, rank) of the rows that a window emits."""
    copied = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), rows.column("rows"))))
    orders = [
        order_codes(copied.column(o.column), o.is_descending, o.nulls_first) for o in first.order
    ]
    groups = [copied.column(name) for name in by] or [pa.array(np.zeros(copied.num_rows))]
    result, ranks = ranked_rows(groups, orders, copied.num_rows, first.function, (1, first.last))
    first_rows = copied.take(pa.array(result)).select([*by, *(o.column for o in first.order)])
    return sorted(map(repr, zip(first_rows.to_pylist(), ranks.tolist(), strict=True)))


def choice(first: FirstRows) -> FirstRowsOfSlices:
    return FirstRowsOfSlices(first, WINDOW, ("id", "k", "v", "x"), "slice", "rows")


def single_rows(rows: pa.Table) -> BufferRows:
    """Return rows that each occurred once."""
    time_us = rows.column("slice").to_numpy() - 1
    keys = [rows.column(name).combine_chunks() for name in ("id", "k", "v", "x")]
    return BufferRows(time_us, keys, [], [])


def counts(of: pa.Table) -> dict[int, int]:
    """Return the number of rows counted in each slice."""
    grouped = of.group_by("slice").aggregate([("rows", "sum")])
    return {row["slice"]: row["rows_sum"] for row in grouped.to_pylist()}


@pytest.mark.parametrize("function", ["ROW_NUMBER", "RANK", "DENSE_RANK"])
@given(rows=ROWS, last=st.integers(1, 4), by_key=st.booleans(), is_descending=st.booleans())
def test_the_first_of_a_window_are_among_the_first_of_its_slices(
    function: str,
    rows: list[tuple[object, ...]],
    last: int,
    by_key: bool,
    is_descending: bool,
) -> None:
    by = ("k",) if by_key else ()
    order = (RankOrder("v", is_descending, not is_descending), RankOrder("x", False, True))
    first = FirstRows(by, order, function, last)
    # equal rows are grouped, as in the local stage
    alike = {row[:-1] if row[3] == row[3] else (*row[:3], "nan"): row for row in rows}
    every = table(list(alike.values()))
    with_counts = every.append_column("copies", every.column("rows"))
    kept = choice(first).of(with_counts)
    assert kept.schema == with_counts.schema
    assert set(kept.column("id").to_pylist()) <= set(every.column("id").to_pylist())
    as_they_came = kept.drop_columns(["rows"]).rename_columns(
        ["rows" if n == "copies" else n for n in kept.column_names if n != "rows"]
    )
    assert top(as_they_came, first, list(by)) == top(every, first, list(by))


@pytest.mark.parametrize("function", ["ROW_NUMBER", "RANK", "DENSE_RANK"])
@given(rows=ROWS, last=st.integers(1, 3), by_key=st.booleans(), cut=st.integers(0, 40))
def test_the_first_of_a_slice_are_among_the_first_of_each_of_its_batches(
    function: str, rows: list[tuple[object, ...]], last: int, by_key: bool, cut: int
) -> None:
    by = ("k",) if by_key else ()
    first = FirstRows(by, (RankOrder("v", True, False), RankOrder("x", True, True)), function, last)
    every = table([(*row[:-1], 1) for row in rows])
    chosen = choice(first)
    kept = []
    for part in (every.slice(0, cut), every.slice(cut)):
        if part.num_rows:
            result = chosen.among(single_rows(part))
            columns = dict(zip(("id", "k", "v", "x"), result.keys, strict=True))
            columns["slice"] = pa.array(result.time_us + 1)
            kept.append(pa.table({**columns, "rows": pa.array(np.ones(len(result.time_us), int))}))
    out = chosen.of(pa.concat_tables(kept))
    assert counts(out) == counts(every)
    ones = pa.array(np.ones(out.num_rows, int))
    at = out.schema.get_field_index("rows")
    by_slice = ["slice", *by]
    assert top(out.set_column(at, "rows", ones), first, by_slice) == top(every, first, by_slice)


@given(rows=ROWS)
def test_rows_that_go_are_counted_in_their_slice(rows: list[tuple[object, ...]]) -> None:
    every = table(rows)
    first = FirstRows((), (RankOrder("v", True, False),), "ROW_NUMBER", 1)
    kept = choice(first).of(every)
    assert counts(kept) == counts(every)
    assert kept.num_rows == len(counts(every))
