"""Files in Azure, on a test server: listings, refused requests and settings.

Tests of Azure and S3 are in `test_stores`.
"""

from collections.abc import Iterator

import pytest

from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Store, store_of
from tests.azure_store import ACCOUNT, HOST, KEY, SAS, WRONG_KEY, AzureStore, Blob, azure_store


@pytest.fixture(scope="module")
def flat() -> Iterator[AzureStore]:
    with azure_store() as result:
        yield result


@pytest.mark.parametrize("token", [SAS, f"?{SAS}"])
def test_a_sas_token_works_like_the_key(flat: AzureStore, token: str) -> None:
    flat.blobs["tokens/a.parquet"] = Blob(b"1")
    assert StoredFiles(flat.store(sas=token)).is_file(flat.uri("tokens/a.parquet"))


def test_a_listing_of_several_pages_is_whole(flat: AzureStore) -> None:
    for number in range(7):
        flat.blobs[f"pages/{number}.parquet"] = Blob(b"1")
    flat.page = 2
    result = StoredFiles(flat.store()).infos_below(flat.uri("pages"))
    assert [info.path for info in result] == [f"lake/pages/{n}.parquet" for n in range(7)]


@pytest.mark.parametrize("is_hierarchical", [False, True])
def test_directory_markers_of_hadoop_are_not_files(is_hierarchical: bool) -> None:
    with azure_store(is_hierarchical=is_hierarchical) as store:
        for path in ("logs", "logs/day=1", "logs/day=3"):
            store.blobs[path] = Blob(b"", is_directory=True)
        store.blobs["logs/day=1/a.parquet"] = Blob(b"1")
        files = StoredFiles(store.store())
        assert files.is_directory(store.uri("logs")) and files.is_directory(store.uri("logs/day=3"))
        result = [info.path for info in files.infos_below(store.uri("logs"))]
    assert result == ["lake/logs/day=1/a.parquet"]


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
