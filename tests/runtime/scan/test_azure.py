"""The scan of files in Azure, on a test server: with and without directories, and refused."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from runtime.scan.metadata import find_source
from runtime.scan.read import read_batches
from runtime.scan.splits import plan_splits
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Store, store_of
from runtime.spec.expressions import Call, ColumnRef, Constant
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column
from tests.azure_store import ACCOUNT, HOST, KEY, SAS, WRONG_KEY, AzureStore, Blob, azure_store

N_ROWS = 3000
K = Column("k", "bigint")


def rows(first: int, n: int = N_ROWS) -> pa.Table:
    return pa.table({"k": range(first, first + n), "s": [f"text {i}" for i in range(n)]})


@pytest.fixture(params=["flat", "hierarchical"])
def store(request: pytest.FixtureRequest) -> Iterator[AzureStore]:
    """Provide a container of an account without directories, and of one with them."""
    with azure_store(is_hierarchical=request.param == "hierarchical") as result:
        for day in (1, 2):
            uri = f"logs/day={day}/part 0.parquet"
            result.put(uri, rows(day * N_ROWS), row_group_size=N_ROWS // 3)
        result.requests.clear()
        yield result


@pytest.fixture(scope="module")
def flat() -> Iterator[AzureStore]:
    with azure_store() as result:
        yield result


def read_all(store: Store, source: ScanSource, *filters: Call) -> list[int]:
    splits = plan_splits(source, filters, 4, least_bytes=1, store=store)
    batches = (b for split in splits for b in read_batches(split, source, frozenset(), store))
    return sorted(k for batch in batches for k in batch.column("k").to_pylist())


@pytest.mark.variants(1, long=2)
def test_files_of_a_container_are_read_like_local_ones(store: AzureStore) -> None:
    opened = store.store()
    source = find_source("x", [store.uri("logs")], [K, Column("day", "int")], opened)
    assert isinstance(source, ScanSource), source
    assert [file.path for file in source.files] == [
        store.uri(f"logs/day={day}/part 0.parquet") for day in (1, 2)
    ]
    assert [file.partition_values for file in source.files] == [(1,), (2,)]
    assert read_all(opened, source) == list(range(N_ROWS, 3 * N_ROWS))
    store.requests.clear()
    late = Call(">=", (ColumnRef("k", "bigint"), Constant(3 * N_ROWS - 5, "bigint")), "boolean")
    assert min(read_all(opened, source, late)) == 2 * N_ROWS + 2 * (N_ROWS // 3)
    assert {path for _, path, _ in store.requests} == {
        f"/{ACCOUNT}/lake/logs/day=2/part%200.parquet"
    }


@pytest.mark.variants(1, long=2)
def test_a_sas_token_works_like_the_key(store: AzureStore) -> None:
    for token in (SAS, f"?{SAS}"):
        opened = store.store(sas=token)
        source = find_source("x", [store.uri("logs")], [K], opened)
        assert isinstance(source, ScanSource), source
        assert len(read_all(opened, source)) == 2 * N_ROWS


@pytest.mark.variants(1, long=2)
def test_wildcards_match_paths_of_the_container(store: AzureStore) -> None:
    store.put("logs/_temporary/part-9.parquet", rows(0, 1))
    files = StoredFiles(store.store())
    assert files.expand(store.uri("l*/day={2,3}/*.parquet")) == [
        store.uri("logs/day=2/part 0.parquet")
    ]
    assert files.names_in(store.uri("logs")) == ["_temporary", "day=1", "day=2"]
    assert files.names_in(store.uri("none")) == [] and not files.exists(store.uri("none"))
    assert files.is_directory(store.uri("logs")) and not files.is_file(store.uri("logs"))
    assert files.is_directory(store.uri())
    assert files.info(store.uri("logs/day=1/part 0.parquet")).size > 1000


def test_a_listing_of_several_pages_is_whole(flat: AzureStore) -> None:
    for number in range(7):
        flat.blobs[f"pages/{number}.parquet"] = Blob(b"1")
    flat.page = 2
    result = StoredFiles(flat.store()).infos_below(flat.uri("pages"))
    assert [info.path for info in result] == [f"lake/pages/{n}.parquet" for n in range(7)]


@pytest.mark.variants(1, long=2)
def test_directories_with_a_common_prefix_are_separate(store: AzureStore) -> None:
    store.put("logs-of-old/part-0.parquet", rows(0, 1))
    store.put("logs/day=1.parquet", rows(0, 1))
    files = StoredFiles(store.store())
    assert files.is_directory(store.uri("logs"))
    assert files.is_directory(store.uri("logs/day=1"))
    assert not files.exists(store.uri("log"))


def test_directory_markers_of_hadoop_are_not_files(store: AzureStore) -> None:
    for path in ("logs", "logs/day=1", "logs/day=3"):
        store.blobs[path] = Blob(b"", is_directory=True)
    files = StoredFiles(store.store())
    assert files.is_directory(store.uri("logs")) and files.is_directory(store.uri("logs/day=3"))
    result = [info.path for info in files.infos_below(store.uri("logs"))]
    assert result == [f"lake/logs/day={day}/part 0.parquet" for day in (1, 2)]


# -- what goes wrong -------------------------------------------------------------------------------


def error_of(store: Store) -> str:
    """Return the error for a file that cannot be found, within seconds."""
    with pytest.raises(OSError) as raised:
        StoredFiles(store).is_file(f"{store.root}/x")
    assert raised.value.strerror is not None and "\n" not in raised.value.strerror
    return raised.value.strerror


def test_a_refused_request_names_the_setting(flat: AzureStore) -> None:
    assert error_of(flat.store(account_key=WRONG_KEY)) == (
        f"the store rejected the account key; check spark.hadoop.fs.azure.account.key.{HOST}"
    )
    assert f"SAS token; check spark.hadoop.fs.azure.sas.fixed.token.{HOST}" in error_of(
        flat.store(sas=SAS.replace("c2ln", "d2ln"))
    )
    assert "container nothing does not exist" in error_of(flat.store(flat.uri(container="nothing")))
    flat.failing = "AuthorizationPermissionMismatch"
    try:
        assert error_of(flat.store()).startswith("permission denied for the account key")
    finally:
        flat.failing = ""
    nobody = {name: value for name, value in flat.settings().items() if "key" not in name}
    opened = store_of(flat.uri(), nobody.get)
    assert opened is not None and "requires TLS" in error_of(opened)


@pytest.mark.slow
def test_an_unreachable_or_failing_store_names_the_setting(flat: AzureStore) -> None:
    assert "spark.hadoop.fs.azure.abfs.endpoint if it is set" in error_of(
        flat.store(abfs_endpoint="127.0.0.1:1")
    )
    assert "no secure connection to the store" in error_of(flat.store(always_use_https="true"))
    flat.failing = "ServerBusy"
    try:
        assert "the store failed repeatedly" in error_of(flat.store())
    finally:
        flat.failing = ""


# -- settings --------------------------------------------------------------------------------------


def options(uri: str, **settings: str) -> dict[str, object]:
    hadoop_settings = {f"fs.azure.{name}": value for name, value in settings.items()}
    result = store_of(uri, hadoop_settings.get)
    assert result is not None
    given = dict(result.options)
    assert given.pop("account_name") == ACCOUNT
    return given


def test_credentials_are_of_one_kind() -> None:
    uri = f"abfss://box@{HOST}/dir"
    client = {
        "account.oauth2.client.id": "me",
        f"account.oauth2.client.secret.{HOST}": "hush-hush",
        "account.oauth2.client.endpoint": "https://login.x.com/tenant-1/oauth2/token",
    }
    application = {"client_id": "me", "client_secret": "hush-hush", "tenant_id": "tenant-1"}
    every = {f"account.key.{HOST}": KEY, "sas.fixed.token": "sig=1", **client}
    assert options(uri, **every) == {"account_key": KEY}
    assert options(uri, **{**every, "account.auth.type": "SAS"}) == {"sas_token": "?sig=1"}
    assert options(uri, **{**every, f"account.auth.type.{HOST}": "OAuth"}) == application
    assert options(uri, **client) == application
    assert options(uri) == {}
    assert options(uri, **{f"sas.fixed.token.box.{HOST}": "a", "sas.fixed.token": "b"}) == {
        "sas_token": "?a"
    }
    only = options(uri, **{"account.oauth2.client.id": "me"})
    assert only == {"client_id": "me"}, "an identity of the machine's"


def test_the_older_scheme_has_the_settings_of_its_account() -> None:
    blob = HOST.replace("dfs.", "blob.")
    uri = f"wasbs://box@{blob}/dir"
    assert options(uri, **{f"account.key.{blob}": KEY}) == {"account_key": KEY}
    assert options(uri, **{f"account.key.{HOST}": KEY}) == {"account_key": KEY}
    assert options(uri, **{f"sas.box.{blob}": "sig=1"}) == {"sas_token": "?sig=1"}


def test_the_environment_says_who_asks_where_settings_are_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = f"abfss://box@{HOST}/dir"
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    assert options(uri) == {"account_key": KEY}
    assert options(uri, **{"sas.fixed.token": "a"}) == {"sas_token": "?a"}
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "another")
    assert options(uri) == {}
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sig=2")
    assert options(uri, **{"account.auth.type": "SAS"}) == {"sas_token": "?sig=2"}


def test_an_endpoint_is_where_an_emulator_is() -> None:
    emulator = {"blob_storage_authority": "azurite:10000", "dfs_storage_authority": "azurite:10000"}
    plain = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
    settings = {"abfs.endpoint": "azurite:10000", "always.use.https": "false"}
    assert options(f"abfs://box@{HOST}/dir", **settings) == emulator | plain
    assert options(f"abfss://box@{HOST}/dir", **settings) == emulator, "the scheme says TLS"
    assert options(f"abfs://box@{ACCOUNT}.dfs.core.chinacloudapi.cn/dir") == {
        "blob_storage_authority": ".blob.core.chinacloudapi.cn",
        "dfs_storage_authority": ".dfs.core.chinacloudapi.cn",
    }


@pytest.mark.parametrize(
    ("uri", "settings", "message"),
    [
        (f"abfss://{HOST}/dir", {}, "has no account: use abfss://CONTAINER@"),
        (
            "",
            {"account.key": "no base 64"},
            f"not valid Base64: check spark.hadoop.fs.azure.account.key.{HOST}",
        ),
        ("", {"account.auth.type": "Custom"}, "account.auth.type must be SharedKey, OAuth or SAS"),
        ("", {"account.auth.type": "SAS"}, "spark.hadoop.fs.azure.sas.fixed.token"),
        ("", {"account.auth.type": "SharedKey"}, "missing account key"),
        (
            "",
            {"abfs.endpoint": "http://azurite:10000"},
            "abfs.endpoint must be HOST:PORT, not http://",
        ),
        (
            "",
            {"account.oauth2.client.id": "me", "account.oauth2.client.secret": "x"},
            "missing credential: set spark.hadoop.fs.azure.account.oauth2.client.endpoint",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_named(
    uri: str, settings: dict[str, str], message: str
) -> None:
    with pytest.raises(OSError, match=message):
        options(uri or f"abfss://box@{HOST}/dir", **settings)


def test_keys_are_not_printed(flat: AzureStore) -> None:
    assert KEY not in repr(flat.store()) and SAS not in repr(flat.store(sas=SAS))
