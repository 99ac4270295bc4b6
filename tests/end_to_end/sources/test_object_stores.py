"""Streams over files in an object store that Spark has no package for read each file once."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.connectors.filesystem.listed import ListedFiles
from runtime.errors import SqlwinError
from runtime.files import LocalFiles
from runtime.scan.stored_files import StoredFiles
from runtime.spec.table import TableSpec
from sqlwin.execution.streams.handle import Stream
from tests.object_store import ObjectStore
from tests.observing import wait_for_stream

COUNTS = """
    SELECT k, window_end AS e, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE i, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY k, window_start, window_end
"""


def minutes(first: int, n: int = 1) -> pa.Table:
    """Return five rows of each of three keys in every minute."""
    seconds = [60 * (first + m) + s for m in range(n) for s in range(0, 60, 4)]
    return pa.table(
        {
            "k": pa.array([i % 3 for i in range(len(seconds))], pa.int64()),
            "ts": pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us")),
        }
    )


def tables(session: sqlwin.Session, store: ObjectStore, path: str, directory: Path) -> None:
    filesystem = "'connector' = 'filesystem', 'format' = 'parquet'"
    session.execute(f"""
        SET 'execution.checkpointing.dir' = '{directory}/ck';
        CREATE TABLE i (k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH
          ({filesystem}, 'path' = '{store.uri(path)}', 'source.monitor-interval' = '100 ms');
        CREATE TABLE o (k BIGINT, e TIMESTAMP(3), n BIGINT) WITH
          ({filesystem}, 'path' = '{directory}/out')
    """)


def start_stream(session: sqlwin.Session) -> Stream:
    (result,) = session.execute(f"INSERT INTO o {COUNTS}")
    assert result.stream is not None
    return result.stream


def written_windows(directory: Path) -> list[tuple[int, object, int]]:
    """Return the windows that a stream has written, sorted."""
    tables = [pq.read_table(path) for path in sorted((directory / "out").glob("part-*.parquet"))]
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def await_windows(stream: Stream, directory: Path, n: int) -> None:
    wait_for_stream(
        stream,
        lambda: len(written_windows(directory)) >= n,
        explain=lambda: written_windows(directory),
    )


@pytest.mark.slow
def test_a_store_that_stops_answering_stops_the_stream(
    lake: sqlwin.Session, store: ObjectStore, tmp_path: Path
) -> None:
    store.put("stop/a.parquet", minutes(0, 2))
    tables(lake, store, "stop", tmp_path)
    stream = start_stream(lake)
    await_windows(stream, tmp_path, 3)
    with store.failing("AccessDenied"), pytest.raises(SqlwinError) as raised:
        stream.wait(180)
    assert raised.value.message.startswith(f"table `i`: cannot read {store.uri('stop')}")
    assert "permission denied" in raised.value.message


@pytest.mark.slow
def test_rows_that_only_spark_would_read_are_refused_on_streams(
    lake: sqlwin.Session, store: ObjectStore, tmp_path: Path
) -> None:
    store.put("rows/a.parquet", minutes(0, 2))
    tables(lake, store, "rows", tmp_path)
    lake.execute("CREATE TABLE plain (k BIGINT) WITH ('connector' = 'blackhole')")
    with pytest.raises(SqlwinError, match="streams read only with an additional package"):
        (result,) = lake.execute("INSERT INTO plain SELECT k FROM i")
        assert result.stream is not None
        result.stream.wait(180)


# -- listings, without Spark -----------------------------------------------------------------------


def listings(directory: Path) -> list[list[str]]:
    """Return the files of each listing."""
    return [
        [line.split('\\"')[1].rpartition("/")[2] for line in path.read_text().splitlines()]
        for path in sorted(directory.glob("*.json"))
    ]


def listing(store: ObjectStore, path: str, directory: Path, **options: str) -> ListedFiles:
    table = TableSpec("t", "filesystem", options=tuple(options.items()))
    files = StoredFiles(store.store())
    return ListedFiles(table, store.uri(path), files, LocalFiles(), str(directory))


def test_each_file_is_listed_once_whoever_lists(store: ObjectStore, tmp_path: Path) -> None:
    first = listing(store, "listed", tmp_path)
    first.list_new()
    assert listings(tmp_path) == []
    store.put("listed/a.parquet", minutes(0))
    store.put("listed/_hidden.parquet", minutes(0))
    first.list_new()
    first.list_new()
    assert listings(tmp_path) == [["a.parquet"]]
    store.put("listed/b.parquet", minutes(1))
    listing(store, "listed", tmp_path).list_new()
    assert listings(tmp_path) == [["a.parquet"], ["b.parquet"]]


def test_listings_are_as_long_as_a_micro_batch_may_be(store: ObjectStore, tmp_path: Path) -> None:
    for name in ("x", "y", "part-w-00000001-00000", "part-w-00000001-00001"):
        store.put(f"few/{name}.parquet", minutes(0))
    listing(store, "few", tmp_path, **{"max-files-per-trigger": "1"}).list_new()
    # files published together stay together
    assert sorted(map(len, listings(tmp_path))) == [1, 1, 2]


def test_a_listing_that_fails_says_so(store: ObjectStore, tmp_path: Path) -> None:
    store.put("fails/a.parquet", minutes(0))
    actual = listing(store, "fails", tmp_path, **{"source.monitor-interval": "10 ms"})
    errors: list[BaseException] = []
    over = threading.Event()

    def failed(error: BaseException) -> None:
        errors.append(error)
        over.set()

    with store.failing("InvalidAccessKeyId"):
        actual.start(failed)
        assert over.wait(180)
    actual.stop()
    assert "spark.hadoop.fs.s3a.access.key" in str(errors[0])


def test_an_interrupted_listing_is_not_cached(store: ObjectStore, tmp_path: Path) -> None:
    actual = listing(store, "kept", tmp_path, **{"source.monitor-interval": "10 ms"})
    actual.start(lambda _: None)
    actual.stop()
    reference = weakref.ref(actual)
    del actual
    gc.collect()
    assert reference() is None
