"""Streams over files in an object store that Spark has no package for read each file once."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import pytest

import sqlwin
from runtime.connectors.filesystem.listed import ListedFiles
from runtime.errors import SqlwinError
from runtime.files import LocalFiles
from runtime.scan.stored_files import StoredFiles
from runtime.spec.table import TableSpec
from tests.end_to_end.sources.stored_rows import BY_MINUTE, minutes, table
from tests.object_store import ObjectStore
from tests.observing import wait_for_stream

MONITORED = ", 'source.monitor-interval' = '100 ms'"


@pytest.mark.slow
def test_a_store_that_stops_answering_stops_the_stream(
    lake: sqlwin.Session, store: ObjectStore, tmp_path: Path
) -> None:
    store.put("stop/a.parquet", minutes(0, 2))
    *_, result = lake.execute(f"""
        {table("i", store.uri("stop"), MONITORED)}
        CREATE TABLE o (k BIGINT, e TIMESTAMP(6), total BIGINT) WITH
          ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/out');
        SET 'execution.checkpointing.dir' = '{tmp_path}/ck';
        INSERT INTO o {BY_MINUTE.format("TABLE i")}
    """)
    assert result.stream is not None
    wait_for_stream(result.stream, lambda: any((tmp_path / "out").glob("part-*.parquet")))
    with store.failing("AccessDenied"), pytest.raises(SqlwinError) as raised:
        result.stream.wait(180)
    assert raised.value.message.startswith(f"table `i`: cannot read {store.uri('stop')}")
    assert "permission denied" in raised.value.message


@pytest.mark.slow
def test_rows_that_only_spark_would_read_are_refused_on_streams(
    lake: sqlwin.Session, store: ObjectStore, tmp_path: Path
) -> None:
    store.put("rows/a.parquet", minutes(0, 2))
    with pytest.raises(SqlwinError, match="streams read only with an additional package"):
        *_, result = lake.execute(f"""
            {table("i", store.uri("rows"), MONITORED)}
            CREATE TABLE plain (k BIGINT) WITH ('connector' = 'blackhole');
            SET 'execution.checkpointing.dir' = '{tmp_path}/ck';
            INSERT INTO plain SELECT k FROM i
        """)
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
    spec = TableSpec("t", "filesystem", options=tuple(options.items()))
    files = StoredFiles(store.store())
    return ListedFiles(spec, store.uri(path), files, LocalFiles(), str(directory))


def test_each_file_is_listed_once_whoever_lists(store: ObjectStore, tmp_path: Path) -> None:
    first = listing(store, "listed", tmp_path)
    first.list_new()
    assert listings(tmp_path) == []
    store.put("listed/a.parquet", minutes(0, 1))
    store.put("listed/_hidden.parquet", minutes(0, 1))
    first.list_new()
    first.list_new()
    assert listings(tmp_path) == [["a.parquet"]]
    store.put("listed/b.parquet", minutes(1, 1))
    listing(store, "listed", tmp_path).list_new()
    assert listings(tmp_path) == [["a.parquet"], ["b.parquet"]]


def test_listings_are_as_long_as_a_micro_batch_may_be(store: ObjectStore, tmp_path: Path) -> None:
    for name in ("x", "y", "part-w-00000001-00000", "part-w-00000001-00001"):
        store.put(f"few/{name}.parquet", minutes(0, 1))
    listing(store, "few", tmp_path, **{"max-files-per-trigger": "1"}).list_new()
    # files published together stay together
    assert sorted(map(len, listings(tmp_path))) == [1, 1, 2]


def test_a_listing_that_fails_says_so(store: ObjectStore, tmp_path: Path) -> None:
    store.put("fails/a.parquet", minutes(0, 1))
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
