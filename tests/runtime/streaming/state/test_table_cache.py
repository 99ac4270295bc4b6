"""A worker's cache of state stays within its limit and never returns uncommitted tables."""

import os
import shutil

import numpy as np
import pyarrow as pa
import pytest

from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.thresholds import Thresholds
from runtime.streaming.slices.chunks import SliceState, slab_us
from runtime.streaming.state.codec import encode_table
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.state.table_cache import (
    CACHE,
    SharedTables,
    TableCache,
    read_table,
    tables_of_executor,
    unique_name,
)
from runtime.windows.hop import Hop


def table(n_rows):
    return pa.table({"v": pa.array(range(n_rows), pa.int64())})


def test_recently_used_tables_stay_cached():
    cache = TableCache(max_bytes=3 * 80)
    for name in "abc":
        cache.put(name, table(10))
    assert cache.get("a") is not None
    cache.put("d", table(10))
    assert [name for name in "abcd" if cache.get(name) is not None] == ["a", "c", "d"]
    assert cache.n_bytes == 240


def test_a_large_table_is_not_cached_and_evicts_none():
    cache = TableCache(max_bytes=100)
    cache.put("a", table(10))
    cache.put("b", table(100))
    assert cache.get("b") is None
    assert cache.get("a") is not None
    cache.remove("a")
    cache.remove("a")
    assert cache.n_bytes == 0


def test_tables_read_for_the_last_time_are_evicted_first():
    cache = TableCache(max_bytes=2 * 80)
    cache.put("a", table(10))
    cache.put("b", table(10))
    assert cache.get("b", is_last=True) is not None
    cache.put("c", table(10))
    assert [name for name in "abc" if cache.get(name) is not None] == ["a", "c"]


def test_a_blob_read_for_the_last_time_is_not_cached():
    name, store = unique_name(), Store()
    store.put(name, encode_table(table(1000)))
    CACHE.clear()
    assert read_table(store, name, is_last=True) == table(1000)
    assert CACHE.n_bytes == 0
    assert read_table(store, name) == table(1000)
    assert CACHE.get(name) == table(1000)


# the smallest tables that are worth a file
LARGE = table(1 << 15)


def shared_tables(directory, max_bytes=1 << 30):
    return TableCache(1 << 20, SharedTables(directory / "state", max_bytes))


def test_a_large_table_that_one_worker_wrote_is_another_ones_too(tmp_path):
    one, other = shared_tables(tmp_path), shared_tables(tmp_path)
    one.put("small", table(10))
    one.put("large", LARGE)
    assert other.get("large").equals(one.get("large"))
    assert other.get("large").equals(LARGE)
    assert other.get("small") is None
    assert one.n_bytes == 80
    other.remove("large")
    assert one.get("large") is None


def test_a_table_in_use_survives_its_file(tmp_path):
    cache = shared_tables(tmp_path)
    cache.put("large", LARGE)
    result = cache.get("large")
    cache.remove("large")
    assert os.listdir(tmp_path / "state") == []
    assert result.equals(LARGE)


def test_a_file_stays_mapped_while_others_fit_and_it_exists(tmp_path):
    shared = SharedTables(tmp_path, 1 << 30, max_mapped=LARGE.nbytes)
    for name in "ab":
        shared.put(name, LARGE)
    first = shared.get("a")
    assert shared.get("a") is first
    assert shared.get("b").equals(LARGE)
    again = shared.get("a")
    assert again is not first and again.equals(LARGE)
    (tmp_path / "a").unlink()
    assert shared.get("a") is None


def test_a_part_of_a_table_takes_no_more_room_than_it_has_rows(tmp_path):
    cache = shared_tables(tmp_path)
    cache.put("part", table(1 << 20).slice(5, 1 << 15))
    assert (tmp_path / "state" / "part").stat().st_size < LARGE.nbytes + 4096
    assert cache.get("part")["v"].to_pylist()[:2] == [5, 6]


def test_least_recently_used_files_are_deleted_first(tmp_path):
    one, other = (
        shared_tables(tmp_path, 8 * LARGE.nbytes),
        shared_tables(tmp_path, 8 * LARGE.nbytes),
    )
    names = [f"{number:02}" for number in range(40)]
    for place, name in enumerate(names):
        (one if place % 2 else other).put(name, LARGE)
        assert one.get("00") is not None
        # file systems may have coarse clocks
        os.utime(tmp_path / "state" / name, (place, place))
        os.utime(tmp_path / "state" / "00", (place, place))
    left = sorted(os.listdir(tmp_path / "state"))
    assert len(left) <= 9
    assert left[0] == "00"
    assert left[-1] == "39"


@pytest.mark.parametrize("obstacle", ["a file", "nothing above it"])
def test_where_no_file_can_be_written_tables_are_in_memory(tmp_path, obstacle):
    directory = tmp_path / "state"
    if obstacle == "a file":
        directory.write_text("in the way")
    else:
        directory = tmp_path / "gone" / "state"
    cache = TableCache(1 << 20, SharedTables(directory, 1 << 30))
    cache.put("large", LARGE)
    assert cache.get("large") is LARGE
    assert cache.get("other") is None
    cache.remove("large")
    assert cache.get("large") is None


def test_a_deleted_directory_is_recreated_or_ignored(tmp_path):
    place = tmp_path / "executor"
    place.mkdir()
    cache = shared_tables(place, 1)
    for name in "ab":
        cache.put(name, LARGE)
        shutil.rmtree(place / "state")
        assert cache.get(name) is None
    place.rmdir()
    cache.put("c", LARGE)
    assert cache.get("c") is LARGE


def test_the_workers_of_an_executor_share_a_directory_of_spark(spark):
    def report_directory(_):
        existing = tables_of_executor(os.environ["SPARK_LOCAL_DIRS"], 1 << 30)
        yield pa.RecordBatch.from_pydict({"is_there": [existing is not None]})

    rows = spark.range(2).repartition(2).mapInArrow(report_directory, "is_there boolean").collect()
    assert {row.is_there for row in rows} == {True}


@pytest.mark.parametrize("directories", ["", "local", "local,blockmgr-1", "blockmgr-gone"])
def test_other_processes_than_workers_have_no_directory(tmp_path, directories):
    (tmp_path / "local").mkdir()
    (tmp_path / "blockmgr-1").mkdir()
    places = ",".join(f"{tmp_path}/{part}" for part in directories.split(",") if part)
    assert tables_of_executor(places, 1 << 30) is None
    assert tables_of_executor(f"{tmp_path}/blockmgr-1,{places}", 1 << 30) is not None


def test_no_two_blobs_have_a_name():
    assert len({unique_name() for _ in range(10_000)}) == 10_000


class Store(dict):
    """State that a failed task leaves unchanged."""

    def put(self, name, blob):
        self[name] = blob

    def remove(self, name):
        self.pop(name, None)


def slices(store, metadata):
    columns = StateColumns(("k",), "$slice_end", (Merge(("s",), MergeOp.SUM),))
    windows = Hop(10, 40).assigner()
    return SliceState(store, metadata, windows, slab_us(Hop(10, 40)), columns, Thresholds())


def partials(*rows):
    keys, ends, sums = zip(*rows, strict=True)
    return pa.table({"k": keys, "$slice_end": pa.array(ends, pa.int64()), "s": list(sums)})


def cached_tables(state):
    tables = state.tables(every(state))
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def every(state):
    """Return all chunks."""
    first, _ = state.chunk_ends()
    return np.ones(len(first), np.bool_)


def test_a_failed_task_leaves_no_tables_for_its_retry():
    committed = Store()
    state = slices(committed, ())
    state.append(partials((1, 10, 5), (2, 10, 7)))
    metadata = state.metadata()

    # a task splits those slices and adds others, in this process, and is never committed
    lost = slices(Store(committed), metadata)
    lost.append(partials((1, 20, 100)))
    lost.remove(every(lost))

    again = slices(Store(committed), metadata)
    again.append(partials((1, 20, 3)))
    assert cached_tables(again) == [(1, 10, 5), (1, 20, 3), (2, 10, 7)]


def test_cached_tables_are_not_read_from_state(monkeypatch):
    store = Store()
    state = slices(store, ())
    state.append(partials((1, 10, 5)))
    monkeypatch.setattr(store, "get", lambda name: (_ for _ in ()).throw(AssertionError(name)))
    assert cached_tables(slices(store, state.metadata())) == [(1, 10, 5)]


def test_a_worker_with_an_empty_cache_reads_the_state():
    store = Store()
    state = slices(store, ())
    state.append(partials((1, 10, 5)))
    CACHE.clear()
    assert cached_tables(slices(store, state.metadata())) == [(1, 10, 5)]
