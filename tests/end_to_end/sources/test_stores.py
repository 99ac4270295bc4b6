"""Windows over Parquet in object stores, on servers of the tests that speak their protocols."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import sqlwin
from runtime.errors import SqlwinError
from tests.azure_store import KEY, SAS, azure_store
from tests.end_to_end.sources.stored_rows import (
    BY_MINUTE,
    check_resumed_stream,
    minutes,
    rows,
    table,
)
from tests.marks import among
from tests.object_store import KEYS, object_store

pytestmark = pytest.mark.long

# In its own process, because Arrow holds the GIL during requests to this store. Serves requests
# concurrently, and prints its port.
GCS_SERVER = """
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


@dataclass(frozen=True)
class Bucket:
    """An empty bucket.

    Attributes:
        root: URI of the bucket.
        settings: Settings with which a session opens it.
        put: Writes a Parquet file, given its path in the bucket.
        elsewhere: URI in a bucket that does not exist.
        secret: Credential that no plan and no checkpoint may contain. Empty without credentials.
    """

    root: str
    settings: dict[str, str]
    put: Callable[..., object]
    elsewhere: str
    secret: str = ""


@contextmanager
def s3() -> Iterator[Bucket]:
    with object_store() as store:
        secret = KEYS["secret.key"]
        yield Bucket(store.uri(), store.settings(), store.put, "s3a://elsewhere/in", secret)


@contextmanager
def azure(**changed: str) -> Iterator[Bucket]:
    with azure_store(is_hierarchical=True) as store:
        elsewhere = store.uri("in", container="elsewhere")
        settings = store.settings(**changed)
        yield Bucket(store.uri(), settings, store.put, elsewhere, changed.get("sas", KEY))


@contextmanager
def gcs() -> Iterator[Bucket]:
    command = [sys.executable, "-c", GCS_SERVER]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as running:
        try:
            assert running.stdout is not None
            address = f"127.0.0.1:{int(running.stdout.readline())}"
            retry_limit = timedelta(seconds=10)
            system = fs.GcsFileSystem(
                anonymous=True,
                scheme="http",
                endpoint_override=address,
                retry_time_limit=retry_limit,
            )

            def put(path: str, part: pa.Table, **options: Any) -> None:
                pq.write_table(part, f"lake/{path}", filesystem=system, **options)

            settings = {
                "fs.gs.auth.type": "UNAUTHENTICATED",
                "fs.gs.storage.root.url": f"http://{address}",
            }
            yield Bucket("gs://lake", settings, put, "gs://elsewhere/in")
        finally:
            running.kill()


STORES = {
    "s3": s3,
    "azure": azure,
    "azure with a token": lambda: azure(sas=SAS),
    "gcs": gcs,
}


@pytest.fixture(params=among(STORES, slow=["azure with a token"]))
def bucket(request: pytest.FixtureRequest, fresh_session: sqlwin.Session) -> Iterator[Bucket]:
    """Provide an empty bucket of each store, configured in the session."""
    with STORES[request.param]() as result:
        for name, value in result.settings.items():
            fresh_session.spark.conf.set(name, value)
        yield result
        fresh_session.streams.stop_all()
        for name in result.settings:
            fresh_session.spark.conf.unset(name)


def test_windows_over_a_bucket_equal_those_over_a_disk(
    fresh_session: sqlwin.Session, bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        part = minutes(number * 5, 5)
        bucket.put(f"in/{number}.parquet", part, row_group_size=30)
        pq.write_table(part, tmp_path / f"in/{number}.parquet")
    session = fresh_session
    session.execute(table("there", f"{bucket.root}/in") + table("here", tmp_path / "in"))
    plan = str(session.explain(BY_MINUTE.format("TABLE there")))
    assert "ArrowScanLocalWindowAggregate(table=[there]" in plan
    assert not bucket.secret or bucket.secret not in plan
    expected = rows(session, BY_MINUTE.format("TABLE here"))
    assert len(expected) > 30
    assert rows(session, BY_MINUTE.format("TABLE there")) == expected
    assert rows(session, BY_MINUTE.format(f"'{bucket.root}/in/*.parquet'")) == expected
    assert rows(session, "SELECT COUNT(*), MAX(v) FROM there") == [(300, 99)]


@pytest.mark.parametrize("bucket", among(STORES, slow=["s3", "azure with a token"]), indirect=True)
def test_a_stopped_stream_resumes_with_new_files(
    fresh_session: sqlwin.Session, bucket: Bucket, tmp_path: Path
) -> None:
    uri = f"{bucket.root}/in"
    check_resumed_stream(
        fresh_session, uri, lambda name, part: bucket.put(f"in/{name}", part), tmp_path
    )
    records = "".join(p.read_text() for p in (tmp_path / "checkpoints").rglob("*.json"))
    assert uri in records
    assert not bucket.secret or bucket.secret not in records


def test_missing_objects_are_one_line(fresh_session: sqlwin.Session, bucket: Bucket) -> None:
    missing = f"{bucket.root}/nothing.parquet"
    for path, message in ((missing, f"{missing} does not exist"), (bucket.elsewhere, "elsewhere")):
        fresh_session.execute(table("t", path).replace("CREATE", "CREATE OR REPLACE"))
        with pytest.raises(SqlwinError) as caught:
            fresh_session.execute(BY_MINUTE.format("TABLE t"))
        assert message in caught.value.message
        assert "\n" not in caught.value.message
