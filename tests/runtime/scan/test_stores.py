"""The scan of files in an object store: its requests, and its errors when requests fail.

Most tests are of S3, some of Azure as well: an account without directories, and one with them.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

from runtime.errors import ExecutionError
from runtime.refusal import Refused
from runtime.scan.files import list_files
from runtime.scan.metadata import find_source, find_stream_source
from runtime.scan.ranges import FileRange, file_ranges
from runtime.scan.read import read_batches
from runtime.scan.request_cache import cache_requests
from runtime.scan.splits import plan_splits
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Store, filesystem_of, store_of
from runtime.scan.stream_files import read_stream_file
from runtime.scan.whole_rows import read_part, row_schema
from runtime.spec.expressions import Call, ColumnRef, Constant
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column
from runtime.text.lines import pieces_of, read_lines
from tests.azure_store import AzureStore, azure_store
from tests.object_store import ObjectStore, is_of_rows
from tests.remote_store import RemoteStore

K, S = Column("k", "bigint"), Column("s", "string")
N_ROWS = 30_000


def rows(first: int, n: int = N_ROWS) -> pa.Table:
    numbers = range(first, first + n)
    return pa.table({"k": pa.array(numbers), "s": [f"text {i}" for i in numbers]})


def fill(store: RemoteStore) -> None:
    for day in (1, 2):
        uri = f"logs/day={day}/part 0.parquet"
        store.put(uri, rows(day * N_ROWS), row_group_size=N_ROWS // 3)
    store.put("logs/_temporary/part-9.parquet", rows(0, 1))


@pytest.fixture(scope="module")
def store(store: ObjectStore) -> ObjectStore:
    fill(store)
    return store


@pytest.fixture(scope="module", params=["s3", "azure", "azure with directories"])
def each_store(
    request: pytest.FixtureRequest, store: ObjectStore
) -> Iterator[ObjectStore | AzureStore]:
    if request.param == "s3":
        yield store
        return
    with azure_store(is_hierarchical=request.param == "azure with directories") as azure:
        fill(azure)
        yield azure


def is_of_a_row_group(environ: dict[str, Any]) -> bool:
    """Whether a request asks for a row group, and not for the 64 KiB with the footer."""
    if not is_of_rows(environ):
        return False
    first, last = map(int, re.findall(r"\d+", environ["HTTP_RANGE"]))
    return last - first + 1 != 64 << 10


def source_of(store: RemoteStore, *columns: Column) -> ScanSource:
    uri = store.uri("logs")
    return find_source(uri, [uri], columns, store.store())


def read_all(store: RemoteStore, source: ScanSource, filters: tuple[Call, ...] = ()) -> list[int]:
    opened = store.store()
    splits = plan_splits(source, filters, 4, least_bytes=1, store=opened)
    batches = (b for split in splits for b in read_batches(split, source, frozenset(), opened))
    return [k for batch in batches for k in batch.column("k").to_pylist()]


def error_of(store: ObjectStore, **changed: str) -> str:
    """Return the error for a directory that cannot be listed, within seconds."""
    opened = store.store(**changed)
    with pytest.raises(OSError) as raised:
        StoredFiles(opened).is_file(store.uri("logs/x"))
    assert raised.value.strerror is not None and "\n" not in raised.value.strerror
    return raised.value.strerror


def test_files_of_a_store_are_read_like_local_ones(each_store: RemoteStore) -> None:
    source = source_of(each_store, K, Column("day", "int"))
    assert [file.path for file in source.files] == [
        each_store.uri(f"logs/day={day}/part 0.parquet") for day in (1, 2)
    ]
    assert [file.partition_values for file in source.files] == [(1,), (2,)]
    assert source.n_rows == 2 * N_ROWS
    assert sorted(read_all(each_store, source)) == list(range(N_ROWS, 3 * N_ROWS))


def test_unneeded_row_groups_and_columns_are_not_requested(
    each_store: ObjectStore | AzureStore,
) -> None:
    source = source_of(each_store, K)
    late = Call(">=", (ColumnRef("k", "bigint"), Constant(3 * N_ROWS - 5, "bigint")), "boolean")
    each_store.requests.clear()
    result = read_all(each_store, source, (late,))
    assert min(result) == 2 * N_ROWS + 2 * (N_ROWS // 3)
    # footers are cached: the requests are one listing, a footer and one row group
    (path,) = {unquote(path) for _, path, _ in each_store.requests}
    assert path.endswith("/lake/logs/day=2/part 0.parquet")
    assert len(each_store.requests) <= 4
    uri = each_store.uri("logs")
    assert find_source("x", [uri], [S], each_store.store()) is not None


def test_row_groups_are_requested_ahead(store: ObjectStore) -> None:
    source = source_of(store, K)
    opened = store.store()
    (split,) = plan_splits(source, (), 1, store=opened)
    pa.set_io_thread_count(8)  # code of workers may have limited it in this process
    with store.holding(is_of_a_row_group, 2) as has_met:
        result = [
            k
            for batch in read_batches(split, source, frozenset(), opened)
            for k in batch.column("k").to_pylist()
        ]
    assert has_met.is_set()
    assert result == list(range(N_ROWS, 3 * N_ROWS)), "in the order of the files"


def test_wildcards_match_paths_of_the_store(each_store: RemoteStore) -> None:
    uri, files = each_store.uri, StoredFiles(each_store.store())
    assert files.expand(uri("logs/day=*")) == [uri(f"logs/day={day}") for day in (1, 2)]
    assert files.expand(uri("l*/{day=2,none}/*.parquet")) == [uri("logs/day=2/part 0.parquet")]
    assert files.expand(uri("l*/day=1")) == [uri("logs/day=1")]
    assert files.names_in(uri("logs")) == ["_temporary", "day=1", "day=2"]
    assert files.names_in(uri("none")) == [] and not files.exists(uri("none"))
    assert files.is_directory(uri("logs")) and not files.is_file(uri("logs"))
    assert files.is_directory(uri())
    assert files.info(uri("logs/day=1/part 0.parquet")).size > 1000
    with pytest.raises(OSError, match="the file is read-only"):
        files.delete(uri("logs"))


def test_directories_with_a_common_prefix_are_separate(each_store: RemoteStore) -> None:
    for path in ("near/day=1/a.parquet", "near/day=1.parquet", "near-by/a.parquet"):
        each_store.put(path, rows(0, 1))
    files = StoredFiles(each_store.store())
    assert files.is_directory(each_store.uri("near"))
    assert files.is_directory(each_store.uri("near/day=1"))
    assert not files.exists(each_store.uri("nea"))


def test_a_wildcard_needs_no_request_per_file(store: ObjectStore) -> None:
    for number in range(20):
        store.put(f"globs/day={number % 2}/{number}.parquet", rows(0, 10))
    pattern, opened = store.uri("globs/day=*/*.parquet"), store.store()
    store.requests.clear()
    with cache_requests():
        for _ in range(2):
            roots = StoredFiles(opened).expand(pattern)
            listing = list_files(roots, opened)
    assert len(listing.files) == 20
    assert all(n_bytes > 100 and ns > 0 for n_bytes, ns in listing.stamps.values())
    assert len(store.requests) <= 4, "the directory, and each of the two below it"
    alone = list_files(StoredFiles(opened).expand(pattern), opened)
    assert alone.files == listing.files


@pytest.mark.long
def test_a_slow_store_and_one_that_fails_at_times_give_the_right_rows(store: ObjectStore) -> None:
    source = source_of(store, K)
    everything = list(range(N_ROWS, 3 * N_ROWS))
    with store.failing("slow", is_of_rows, seconds=4, times=1):  # longer than Arrow's own retries
        assert sorted(read_all(store, source)) == everything
    for fault in ("InternalError", "SlowDown", "cut"):
        with store.failing(fault, is_of_rows, times=1):
            assert sorted(read_all(store, source)) == everything


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        pytest.param("InternalError", "the store failed repeatedly", marks=pytest.mark.slow),
        pytest.param("cut", "the store's response was truncated", marks=pytest.mark.slow),
        ("AccessDenied", "permission denied: check spark.hadoop.fs.s3a.access.key"),
    ],
)
def test_a_store_that_keeps_failing_is_an_error(
    store: ObjectStore, fault: str, message: str
) -> None:
    source = source_of(store, K)
    with store.failing(fault, is_of_rows), pytest.raises(ExecutionError) as raised:
        read_all(store, source)
    assert raised.value.message.startswith(f"cannot read {store.uri('logs/day=1/part 0.parquet')}")
    assert message in raised.value.message


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("InvalidAccessKeyId", "unknown access key: check spark.hadoop.fs.s3a.acc"),
        ("SignatureDoesNotMatch", "spark.hadoop.fs.s3a.secret.key"),
        ("ExpiredToken", "check spark.hadoop.fs.s3a.session.token"),
        ("AccessDenied", "permission denied"),
        ("PermanentRedirect", "another region: check spark.hadoop.fs.s3a.endpoint.region"),
    ],
)
def test_a_refused_request_names_the_setting(store: ObjectStore, fault: str, message: str) -> None:
    with store.failing(fault):
        assert message in error_of(store)


@pytest.mark.slow
def test_an_unreachable_store_names_the_setting(store: ObjectStore) -> None:
    assert "not reachable: check spark.hadoop.fs.s3a.endpoint" in error_of(
        store, endpoint="http://127.0.0.1:1"
    )
    assert "fs.s3a.endpoint" in error_of(store, endpoint="http://no-host.invalid:9000")
    secure = store.endpoint.replace("http:", "https:")
    assert "spark.hadoop.fs.s3a.connection.ssl.enabled" in error_of(store, endpoint=secure)
    with store.failing("slow", seconds=3):
        message = error_of(store, **{"connection.timeout": "1s", "attempts.maximum": "1"})
        assert "spark.hadoop.fs.s3a.connection.timeout" in message


def test_a_missing_bucket_is_named(store: ObjectStore) -> None:
    with pytest.raises(FileNotFoundError, match="bucket nothing does not exist"):
        StoredFiles(store.store("s3a://nothing/x")).exists("s3a://nothing/x")
    with pytest.raises(Refused, match="bucket nothing does not exist"):
        find_source("x", ["s3a://nothing/x"], [K], store.store("s3a://nothing/x"))


def test_whole_rows_are_read_by_ranges_of_bytes(store: ObjectStore) -> None:
    opened, uri = store.store(), store.uri("logs/day=1/part 0.parquet")
    schema = row_schema(ScanFile(uri), opened)
    assert schema == pa.schema([("k", pa.int64()), ("s", pa.string())])
    n_bytes = StoredFiles(opened).info(uri).size
    splits = file_ranges([ScanFile(uri, n_bytes=n_bytes)], 1, n_bytes // 4)
    assert len(splits) > 3
    parts = [part for split in splits for part in split]
    tables = [b for part in parts for b in read_part(part, schema, {}, opened)]
    assert pa.Table.from_batches(tables) == rows(N_ROWS)
    wide = pa.schema([("K", pa.int64()), ("none", pa.string()), ("day", pa.int32())])
    (batch, *_) = read_part(parts[0], wide, {"day": pa.scalar(1, pa.int32())}, opened)
    assert batch.slice(0, 1).to_pylist() == [{"K": N_ROWS, "none": None, "day": 1}]
    with pytest.raises(ExecutionError, match=r"column s of .* is string, not int32"):
        list(read_part(parts[0], pa.schema([("s", pa.int32())]), {}, opened))


def test_lines_are_read_by_ranges_of_bytes(store: ObjectStore) -> None:
    opened, uri = store.store(), store.uri("texts/a.csv")
    expected = [f"{number},{'é' * (number % 7)}" for number in range(1000)]
    data = "\n".join(expected).encode()
    with filesystem_of(opened).open_output_stream(opened.path(uri)) as file:
        file.write(data)
    (parts,) = file_ranges([ScanFile(uri, n_bytes=len(data))], 1)
    pieces = [read_lines(piece, opened) for part in parts for piece in pieces_of(part, 1500)]
    assert len(pieces) > 3
    assert [p.text(i) for p in pieces for i in range(len(p.starts))] == expected
    gone = ScanFile(f"{uri}x", n_bytes=10)
    with pytest.raises(ExecutionError, match=r"cannot read .*a\.csvx: "):
        read_lines(FileRange(gone, 0, 10), opened)
    shorter = ScanFile(uri, n_bytes=len(data) + 1)
    with pytest.raises(ExecutionError, match="has changed since the query was planned"):
        read_lines(FileRange(shorter, 0, len(data) + 1), opened)


def test_a_stream_reads_files_of_a_bucket(store: ObjectStore) -> None:
    opened = store.store()
    uri = store.put("stream/a.parquet", rows(0, 10))
    directory = store.uri("stream")
    source = find_stream_source(directory, [directory], [K, Column("x", "int")], opened)
    assert isinstance(source, ScanSource)
    (batch,) = read_stream_file(uri, source, frozenset(), opened)
    assert batch.column("k").to_pylist() == list(range(10))
    assert batch.column("x").null_count == 10
    n_bytes = StoredFiles(opened).info(uri).size
    store.requests.clear()
    whole = FileRange(ScanFile(uri, n_bytes=n_bytes), 0, n_bytes)
    (batch,) = read_stream_file(uri, source, frozenset(), opened, whole)
    assert batch.num_rows == 10
    assert sum(method == "HEAD" for method, _, _ in store.requests) <= 2
    longer = FileRange(ScanFile(uri, n_bytes=n_bytes + 1), 0, n_bytes + 1)
    with pytest.raises(ExecutionError, match="changed after the stream had started to read it"):
        list(read_stream_file(uri, source, frozenset(), opened, longer))
    with pytest.raises(ExecutionError, match="was deleted before the stream read it"):
        list(read_stream_file(f"{directory}/b.parquet", source, frozenset(), opened))
    nothing = store.uri("none")
    assert isinstance(find_stream_source(nothing, [nothing], [K], opened), ScanSource)


# -- settings --------------------------------------------------------------------------------------


def options(uri: str, settings: dict[str, str]) -> dict[str, object]:
    result = store_of(uri, settings.get)
    assert result is not None
    return dict(result.options)


def test_a_bucket_has_settings_of_its_own() -> None:
    settings = {
        "fs.s3a.access.key": "one",
        "fs.s3a.secret.key": "two",
        "fs.s3a.endpoint": "https://minio:9000/",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.bucket.b.access.key": "three",
        "fs.s3a.bucket.b.session.token": "four",
        "fs.s3a.bucket.b.endpoint.region": "eu-west-1",
        "fs.s3a.bucket.c.connection.ssl.enabled": "false",
        "fs.s3a.bucket.c.endpoint": "minio:9000",
        "fs.s3a.bucket.c.path.style.access": "false",
        "fs.s3a.connection.timeout": "60000",
    }
    b = options("s3a://b/x", settings)
    assert (b["access_key"], b["secret_key"], b["session_token"]) == ("three", "two", "four")
    assert (b["endpoint_override"], b["scheme"], b["region"]) == (
        "minio:9000",
        "https",
        "eu-west-1",
    )
    assert b["request_timeout"] == 60.0 and "force_virtual_addressing" not in b
    c = options("s3://c/x", settings)
    assert (c["access_key"], c["scheme"], c["region"]) == ("one", "http", "us-east-1")
    assert c["force_virtual_addressing"] is True
    plain = options("s3a://d", {"fs.s3a.endpoint": "s3.eu-central-1.amazonaws.com"})
    assert plain["region"] == "eu-central-1" and "endpoint_override" not in plain
    anonymous = {"fs.s3a.aws.credentials.provider": "x.AnonymousAWSCredentialsProvider"}
    assert options("s3a://d", {**anonymous, "fs.s3a.endpoint": "h:1"})["anonymous"] is True
    with pytest.raises(OSError, match=r"spark.hadoop.fs.s3a.secret.key"):
        store_of("s3a://d", {"fs.s3a.access.key": "x", "fs.s3a.endpoint": "h:1"}.get)


def test_keys_are_not_printed() -> None:
    settings = {
        "fs.s3a.access.key": "AKIA1",
        "fs.s3a.secret.key": "hidden9",
        "fs.s3a.endpoint": "h",
    }
    assert "hidden9" not in repr(store_of("s3a://b", settings.get))


def test_other_stores_are_opened_by_their_own_settings() -> None:
    gs = {"fs.gs.project.id": "p", "fs.gs.auth.service.account.json.keyfile": "/k.json"}
    assert options("gs://b/x", gs) == {"project_id": "p", "key_file": "/k.json"}
    host = "acc.dfs.core.windows.net"
    azure = {f"fs.azure.account.key.{host}": "a2V5"}
    result = store_of(f"abfss://box@{host}/dir/a", azure.get)
    assert isinstance(result, Store)
    assert dict(result.options) == {"account_name": "acc", "account_key": "a2V5"}
    assert result.path(f"abfss://box@{host}/dir/a") == "box/dir/a"
    assert result.uri("box/dir/a") == f"abfss://box@{host}/dir/a"
    hdfs = store_of("hdfs://name:8020/a/b", {}.get)
    assert hdfs is not None and hdfs.path("hdfs://name:8020/a/b") == "/a/b"
    assert hdfs.uri("/a/b") == "hdfs://name:8020/a/b"
    assert dict(hdfs.options) == {"host": "name", "port": 8020}
    assert store_of("ftp://host/a", {}.get) is None
