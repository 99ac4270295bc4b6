"""Rows of partitions in chunks: found by their marks, taken or left."""

import random

import numpy as np
import pyarrow as pa
import pytest

from runtime.spec.thresholds import Thresholds
from runtime.streaming.state.marked_chunks import MarkedChunks
from runtime.streaming.state.table_cache import CACHE
from runtime.windows.times import FIRST_TIME, LAST_TIME
from tests.runtime.streaming.model import Memory


def rows(keys, times):
    columns = {"k": pa.array(keys, pa.int64())}
    return pa.table(
        columns | {name: pa.array(times, pa.int64()) for name in (FIRST_TIME, LAST_TIME)}
    )


def keys_of(tables):
    return sorted(key for table in tables for key in table["k"].to_pylist())


def marked(state, keys):
    is_marked = state.no_marks()
    is_marked[state.marks(rows(keys, keys))] = True
    return is_marked


# few marks, which many rows have, or many marks of single rows
@pytest.mark.parametrize("n_marks", [1 << 4, 1 << 22])
@pytest.mark.parametrize("n_wanted", [1, 3, 400])
def test_rows_are_found_by_few_marks_or_many(n_marks, n_wanted):
    draw = random.Random(n_wanted)
    thresholds = Thresholds(sessions_n_marks=n_marks, sessions_max_runs=3)
    store = Memory()
    state = MarkedChunks(store, ("k",), thresholds, ())
    for start in range(0, 2000, 500):
        keys = [draw.randrange(1000) for _ in range(500)]
        state.append(rows(keys, list(range(start, start + 500))))
        CACHE.clear()
    every = state.rows_marked(np.ones(n_marks, np.bool_))
    assert sum(map(len, every)) == 2000
    wanted = draw.sample(range(1000), n_wanted)
    is_marked = marked(state, wanted)
    expected = [k for k in keys_of(every) if is_marked[state.marks(rows([k], [0]))[0]]]
    assert keys_of(state.rows_marked(is_marked)) == expected
    for table in state.rows_marked(is_marked):
        times = table[FIRST_TIME].to_pylist()
        assert times == sorted(times), "rows are in their stored order"

    def stay(table):
        return table["k"].to_numpy() % 2 == 0

    assert keys_of(table for _, table in state.take_marked(is_marked, stay)) == expected
    left = [k for k in expected if k % 2 == 0]
    assert keys_of(state.rows_marked(is_marked)) == left
    again = MarkedChunks(store, ("k",), thresholds, state.chunks)
    assert keys_of(table for _, table in again.take_marked(is_marked)) == left
    assert keys_of(again.take_all()) == [k for k in keys_of(every) if k not in set(expected)]


def test_ends_of_rows_mark_their_partitions():
    state = MarkedChunks(Memory(), ("k",), Thresholds(), ())
    state.append(rows([5, 6, 7, 8], [40, 10, 30, 20]))
    is_marked = state.no_marks()
    state.mark_ends(is_marked, 30, 10)
    assert keys_of(state.rows_marked(is_marked)) == [7, 8]
