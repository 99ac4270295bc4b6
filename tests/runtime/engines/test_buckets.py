"""The global stage takes whole keys, within its memory limit."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.arrow.blobs import from_blobs, to_blob
from runtime.engines.spark_batch.buckets import bucket_tables
from runtime.errors import ExecutionError

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
ROWS = st.lists(
    st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 99)), min_size=1, max_size=6
)
BLOBS = st.lists(st.tuples(st.integers(0, 4), ROWS))


def table_of(bucket, rows):
    """Return a table whose keys are all in one bucket."""
    return pa.table([[f"{key}{bucket}" for key, _ in rows], [v for _, v in rows]], schema=SCHEMA)


def blobs_of(pairs):
    pairs = sorted(pairs, key=lambda pair: pair[0])
    return [(bucket, memoryview(to_blob(table_of(bucket, rows)))) for bucket, rows in pairs]


def rows_in(tables):
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def local_files(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    return lambda: list(tmp_path.iterdir())


@given(BLOBS, st.integers(1, 400))
def test_only_the_needed_buckets_are_fetched_whole(pairs, enough):
    tables = list(bucket_tables(blobs_of(pairs), ("k",), enough, 1 << 30))
    assert rows_in(tables) == rows_in([table_of(*pair) for pair in pairs])
    buckets = [{key[1:] for key in table["k"].to_pylist()} for table in tables]
    for before, after in itertools.pairwise(buckets):
        assert not before & after
    n_bytes = dict.fromkeys("01234", 0)
    for bucket, rows in pairs:
        n_bytes[str(bucket)] += from_blobs([to_blob(table_of(bucket, rows))]).nbytes
    for result in buckets:
        # without its last bucket it would be too small
        assert sum(n_bytes[bucket] for bucket in result - {max(result)}) < enough


@pytest.mark.parametrize("most", [0, 60, 300])
@given(pairs=BLOBS)
def test_a_large_bucket_is_split_between_keys(most, pairs):
    tables = list(bucket_tables(blobs_of(pairs), ("k",), 1, most))
    assert rows_in(tables) == rows_in([table_of(*pair) for pair in pairs])
    keys = [set(table["k"].to_pylist()) for table in tables]
    assert sum(map(len, keys)) == len(set().union(*keys))


def test_parts_are_small_and_their_files_go(tmp_path, monkeypatch):
    files = local_files(tmp_path, monkeypatch)
    n_keys, most = 50_000, 40_000
    whole = pa.table([[str(n) for n in range(n_keys)], list(range(n_keys))], schema=SCHEMA)
    blobs = [(0, memoryview(to_blob(part))) for part in whole.to_batches(max_chunksize=5_000)]
    rows = 0
    for table in bucket_tables(blobs, ("k",), 1, most):
        assert table.nbytes <= most
        assert len(files()) >= 1
        rows += table.num_rows
    assert rows == n_keys
    assert files() == []


def test_a_large_key_is_not_split(tmp_path, monkeypatch):
    files = local_files(tmp_path, monkeypatch)
    blobs = blobs_of([(0, [("a", n)]) for n in range(100)])
    (table,) = bucket_tables(blobs, ("k",), 1, 50)
    assert table.num_rows == 100
    assert files() == []


def test_partials_without_keys_are_not_cut():
    (table,) = bucket_tables(blobs_of([(0, [("a", 1), ("b", 2)])] * 3), (), 1, 0)
    assert table.num_rows == 6


def test_the_files_go_where_the_reader_stops_early(tmp_path, monkeypatch):
    files = local_files(tmp_path, monkeypatch)
    tables = bucket_tables(blobs_of([(0, [("a", 1), ("b", 2), ("c", 3)])] * 9), ("k",), 1, 10)
    next(tables)
    assert files()
    tables.close()
    assert files() == []


def test_a_missing_local_directory_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "missing"))
    with pytest.raises(
        ExecutionError, match=r"cannot be spilled to disk: No such.*spark.local.dir"
    ):
        list(bucket_tables(blobs_of([(0, [("a", 1)])]), ("k",), 1, 0))
