"""Kinds of changes above a filter, against the definition row by row."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.spec.stream import ROW_KIND
from runtime.streaming.operators.update_pairs import number_updates, settle_kinds

# (old value, new value) of a key; None: there is none
CHANGE = st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(0, 3))


def emitted(changes: list[tuple]) -> list[tuple[str, int]]:
    """Return the rows of an operator."""
    rows = []
    for old, new in changes:
        if old is not None and new is not None:
            rows += [("-U", old), ("+U", new)]
        elif new is not None:
            rows.append(("+I", new))
        elif old is not None:
            rows.append(("-D", old))
    return rows


def batch_of(rows: list[tuple]) -> pa.RecordBatch:
    kinds, values = zip(*rows, strict=True) if rows else ((), ())
    arrays = [pa.array(values, pa.int64()), pa.array(kinds, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, names=["value", ROW_KIND])


def pairs(batches: list[pa.RecordBatch]) -> list[tuple]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row[ROW_KIND], row["value"]) for row in rows]


@given(st.lists(st.lists(CHANGE, max_size=4), max_size=4), st.integers(0, 3), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_a_filter_sees_both_rows_of_an_update(batches, least, n_rows):
    numbered, first = [], 0
    for changes in batches:
        batch, first = number_updates(batch_of(emitted(changes)), first)
        numbered += [row for row in pairs([batch]) if row[1] >= least]
    cut = [batch_of(numbered[i : i + n_rows]) for i in range(0, len(numbered), n_rows)]
    filtered = [
        tuple(value if value is not None and value >= least else None for value in change)
        for changes in batches
        for change in changes
    ]
    assert pairs([*settle_kinds(cut)]) == emitted(filtered)


def test_rows_that_a_join_has_multiplied_keep_their_kinds():
    rows = [("-U7", 1), ("-U7", 2), ("+U7", 3), ("-U8", 4), ("-U8", 5), ("+U9", 6), (None, 7)]
    for n_rows in (1, 2, 3, 7):
        cut = [batch_of(rows[i : i + n_rows]) for i in range(0, len(rows), n_rows)]
        assert pairs([*settle_kinds(cut)]) == [
            *[("-U", 1), ("-U", 2), ("+U", 3), ("-D", 4), ("-D", 5), ("+I", 6), (None, 7)]
        ]


@pytest.mark.parametrize("batches", [[], [batch_of([])]])
def test_no_rows_stay_no_rows(batches):
    assert [*settle_kinds(batches)] == []
