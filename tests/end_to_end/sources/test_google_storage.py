"""Windows over Parquet in Google Cloud Storage, on a server of the tests that speaks its protocol."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import sqlwin
from runtime.errors import SqlwinError
from tests.end_to_end.sources.stored_rows import (
    BY_MINUTE,
    check_resumed_stream,
    minutes,
    rows,
    table,
)

pytestmark = pytest.mark.long


# In its own process, because Arrow holds the GIL during requests to this store. Serves requests
# concurrently, and prints its port.
SERVER = """
from functools import partial
from http.server import ThreadingHTTPServer
from gcp_storage_emulator.handlers.buckets import create_bucket
from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage

storage = Storage(use_memory_fs=True)
create_bucket("lake", storage)
server = ThreadingHTTPServer(("127.0.0.1", 0), partial(RequestHandler, storage))
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def server() -> Iterator[int]:
    """Start a server with an empty bucket `lake` and yield its port."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            yield int(running.stdout.readline())
        finally:
            running.kill()


@pytest.fixture
def bucket(fresh_session: sqlwin.Session) -> Iterator[fs.FileSystem]:
    """Provide the empty bucket `lake`, configured in the session."""
    with server() as port:
        settings = {
            "fs.gs.auth.type": "UNAUTHENTICATED",
            "fs.gs.storage.root.url": f"http://127.0.0.1:{port}",
        }
        for name, value in settings.items():
            fresh_session.spark.conf.set(name, value)
        yield fs.GcsFileSystem(
            anonymous=True,
            scheme="http",
            endpoint_override=f"127.0.0.1:{port}",
            retry_time_limit=timedelta(seconds=10),
        )
        fresh_session.streams.stop_all()
        for name in settings:
            fresh_session.spark.conf.unset(name)


def test_windows_over_a_bucket_equal_those_over_a_disk(
    fresh_session: sqlwin.Session, bucket: fs.FileSystem, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        result = minutes(number * 5, 5)
        pq.write_table(result, f"lake/in/{number}.parquet", filesystem=bucket, row_group_size=30)
        pq.write_table(result, tmp_path / f"in/{number}.parquet")
    fresh_session.execute(table("there", "gs://lake/in") + table("here", tmp_path / "in"))
    plan = str(fresh_session.explain(BY_MINUTE.format("TABLE there")))
    assert "ArrowScanLocalWindowAggregate(table=[there]" in plan
    result, expected = (
        (
            rows(fresh_session, BY_MINUTE.format(name))
            for name in ("TABLE there", "'gs://lake/in/*.parquet'")
        ),
        rows(fresh_session, BY_MINUTE.format("TABLE here")),
    )
    assert len(expected) > 30
    for item in result:
        assert item == expected


def test_a_stream_reads_each_file_of_a_bucket_once(
    fresh_session: sqlwin.Session, bucket: fs.FileSystem, tmp_path: Path
) -> None:
    check_resumed_stream(
        fresh_session,
        "gs://lake/in",
        lambda name, part: pq.write_table(part, f"lake/in/{name}", filesystem=bucket),
        tmp_path,
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gs://lake/no.parquet", "gs://lake/no.parquet does not exist"),
        ("gs://elsewhere/in", "gs://elsewhere"),
    ],
)
def test_missing_objects_are_one_line(
    path: str, message: str, fresh_session: sqlwin.Session, bucket: fs.FileSystem
) -> None:
    fresh_session.execute(table("t", path))
    with pytest.raises(SqlwinError) as caught:
        fresh_session.execute(BY_MINUTE.format("TABLE t"))
    assert message in caught.value.message
    assert "\n" not in caught.value.message
