"""What a worker keeps of state: never more than asked for, and never what was not committed."""

import numpy as np
import pyarrow as pa

from runtime.compute.windows.aligned import slice_assigner
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.windows import Hop
from runtime.streaming.state.blobs import encode_state
from runtime.streaming.state.slices import SliceState, slab_us
from runtime.streaming.state.table_cache import CACHE, TableCache, read_table, unique_name


def table(n_rows):
    return pa.table({"v": pa.array(range(n_rows), pa.int64())})


def test_the_tables_used_last_are_kept():
    cache = TableCache(max_bytes=3 * 80)
    for name in "abc":
        cache.put(name, table(10))
    assert cache.get("a") is not None
    cache.put("d", table(10))
    assert [name for name in "abcd" if cache.get(name) is not None] == ["a", "c", "d"]
    assert cache.n_bytes == 240


def test_a_table_that_is_too_large_is_not_kept_and_drives_none_out():
    cache = TableCache(max_bytes=100)
    cache.put("a", table(10))
    cache.put("b", table(100))
    assert cache.get("b") is None
    assert cache.get("a") is not None
    cache.remove("a")
    cache.remove("a")
    assert cache.n_bytes == 0


def test_what_is_read_for_the_last_time_makes_room_first():
    cache = TableCache(max_bytes=2 * 80)
    cache.put("a", table(10))
    cache.put("b", table(10))
    assert cache.get("b", is_last=True) is not None
    cache.put("c", table(10))
    assert [name for name in "abc" if cache.get(name) is not None] == ["a", "c"]


def test_a_blob_that_is_read_for_the_last_time_takes_no_room():
    name, store = unique_name(), Store()
    store.put(name, encode_state(table(1000)))
    CACHE.clear()
    assert read_table(store, name, is_last=True) == table(1000)
    assert CACHE.n_bytes == 0
    assert read_table(store, name) == table(1000)
    assert CACHE.get(name) == table(1000)


def test_no_two_blobs_have_a_name():
    assert len({unique_name() for _ in range(10_000)}) == 10_000


class Store(dict):
    """State that a failed task leaves as it was."""

    def put(self, name, blob):
        self[name] = blob

    def remove(self, name):
        self.pop(name, None)


def slices(store, facts):
    sums = (Merge(("s",), MergeOp.SUM),)
    windows = slice_assigner(Hop(10, 40))
    return SliceState(store, facts, windows, slab_us(Hop(10, 40)), 1, "$slice_end", sums)


def partials(*rows):
    keys, ends, sums = zip(*rows, strict=True)
    return pa.table({"k": keys, "$slice_end": pa.array(ends, pa.int64()), "s": list(sums)})


def kept(state):
    tables = state.tables(every(state))
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def every(state):
    """All chunks."""
    first, _ = state.chunk_ends()
    return np.ones(len(first), np.bool_)


def test_a_task_that_failed_leaves_nothing_that_its_retry_reads():
    committed = Store()
    state = slices(committed, None)
    state.append(partials((1, 10, 5), (2, 10, 7)))
    facts = state.facts()

    # a task takes those slices apart and adds others, in this process, and is never committed
    lost = slices(Store(committed), facts)
    lost.append(partials((1, 20, 100)))
    lost.remove(every(lost))

    again = slices(Store(committed), facts)
    again.append(partials((1, 20, 3)))
    assert kept(again) == [(1, 10, 5), (1, 20, 3), (2, 10, 7)]


def test_what_is_in_the_cache_is_not_read_from_state(monkeypatch):
    store = Store()
    state = slices(store, None)
    state.append(partials((1, 10, 5)))
    monkeypatch.setattr(store, "get", lambda name: (_ for _ in ()).throw(AssertionError(name)))
    assert kept(slices(store, state.facts())) == [(1, 10, 5)]


def test_a_worker_that_has_nothing_in_its_cache_reads_the_state():
    store = Store()
    state = slices(store, None)
    state.append(partials((1, 10, 5)))
    CACHE.clear()
    assert kept(slices(store, state.facts())) == [(1, 10, 5)]
