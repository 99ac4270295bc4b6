"""What CREATE TABLE may say of tables of lakes, and what is said without their packages."""

import sys

import pytest

from runtime.connectors.lake.delta.snapshot import open_delta
from runtime.connectors.lake.iceberg.snapshot import (
    from_catalog,
    from_path,
    open_catalog,
    table_name,
)
from runtime.connectors.lake.places import TablePlace
from runtime.connectors.lake.table import UnreadableError
from runtime.connectors.registry import validate_table
from runtime.errors import CatalogError, SetupError
from runtime.scan.stores import Store, store_of
from runtime.spec.table import TableSpec


def spec_of(connector, **options):
    named = tuple((name.replace("_", "-"), value) for name, value in options.items())
    return TableSpec("t", connector, options=named)


@pytest.mark.parametrize(
    "spec",
    [
        spec_of("delta", path="p"),
        spec_of("delta", path="p", version="3"),
        spec_of("delta", path="p", timestamp="2024-01-01"),
        TableSpec("t", "delta", options=(("path", "p"), ("source.monitor-interval", "1 s"))),
        spec_of("iceberg", path="p"),
        spec_of("iceberg", catalog_type="sql", uri="sqlite:///x", catalog_table="a.b"),
        TableSpec("t", "iceberg", options=(("catalog-name", "c"), ("catalog.token", "x"))),
    ],
)
def test_these_are_right(spec):
    validate_table(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (spec_of("delta"), "option 'path' is missing"),
        (spec_of("delta", path="p", version="-1"), "invalid value '-1' for option 'version'"),
        (
            spec_of("delta", path="p", version="1", timestamp="2024-01-01"),
            "options 'version' and 'timestamp' exclude each other",
        ),
        (
            TableSpec(
                "t",
                "delta",
                options=(("path", "p"), ("version", "1"), ("source.monitor-interval", "1 s")),
            ),
            "options 'version' and 'source.monitor-interval' exclude each other",
        ),
        (spec_of("delta", path="p", versoin="1"), "unknown option 'versoin'"),
        (spec_of("iceberg"), "option 'path' is missing, and no catalog is set"),
        (spec_of("iceberg", path="p", uri="x"), "option 'path' is missing, and no catalog is set"),
    ],
)
def test_these_are_refused(spec, message):
    with pytest.raises(CatalogError, match=message):
        validate_table(spec)


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch, tmp_path):
    for name in [each for each in sys.modules if each.split(".")[0] in ("deltalake", "pyiceberg")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    for package, call in [
        ("deltalake", lambda: open_delta(spec_of("delta", path="p"), TablePlace(str(tmp_path)))),
        ("pyiceberg", lambda: from_path(spec_of("iceberg", path="p"), TablePlace(str(tmp_path)))),
        ("pyiceberg", lambda: from_catalog(spec_of("iceberg", uri="x"))),
    ]:
        with pytest.raises(SetupError, match=f"requires the package {package}") as error:
            call()
        assert error.value.hint == "pip install 'sqlwin[lake]'"


def test_a_table_is_in_a_database_of_its_catalog():
    assert table_name(spec_of("iceberg")) == ("default", "t")
    assert table_name(spec_of("iceberg", catalog_table="x.y")) == ("x", "y")
    assert table_name(spec_of("iceberg", catalog_database="d")) == ("d", "t")


def test_properties_of_a_catalog_may_begin_in_any_case():
    options = (("catalog-type", "in-memory"), ("Catalog.Some.Key", "x"))
    spec = TableSpec("t", "iceberg", options=options)
    validate_table(spec)
    assert open_catalog(spec).properties["Some.Key"] == "x"


def test_files_are_found_as_logs_name_them():
    here = TablePlace("/t")
    assert here.file("a%20b/c") == "/t/a b/c"
    assert here.file("a%20b/c", is_escaped=False) == "/t/a%20b/c"
    assert here.file("file:///x/y%3D1") == "/x/y=1"
    assert here.file("file:/x/y") == here.file("/x/y") == "/x/y"
    with pytest.raises(UnreadableError, match="is not on a local file system"):
        here.file("s3://bucket/x")


def test_files_in_a_store_are_under_the_scheme_of_the_table():
    there = TablePlace("s3a://lake/t", Store("s3", "s3a://lake", "lake"))
    assert there.file("a%20b/c") == "s3a://lake/t/a b/c"
    assert there.file("s3://lake/t/a%20b", is_escaped=False) == "s3a://lake/t/a%20b"
    for elsewhere in ("s3://other/x", "file:///x", "gs://lake/x"):
        with pytest.raises(UnreadableError, match="is outside s3a://lake"):
            there.file(elsewhere)


def test_a_store_is_opened_by_what_the_settings_of_hadoop_say():
    said = {
        "fs.s3a.endpoint": "http://minio:9000",
        "fs.s3a.access.key": "who",
        "fs.s3a.secret.key": "what",
        "fs.s3a.connection.timeout": "7s",
    }
    store = store_of("s3a://lake/t", said.get)
    delta = TablePlace("s3a://lake/t", store).delta_options
    assert delta == {
        "aws_access_key_id": "who",
        "aws_secret_access_key": "what",
        "aws_region": "us-east-1",
        "aws_endpoint_url": "http://minio:9000",
        "aws_allow_http": "true",
        "connect_timeout": "5s",
        "timeout": "7s",
        "max_retries": "3",
    }
    iceberg = TablePlace("s3a://lake/t", store).iceberg_properties
    assert iceberg["s3.endpoint"] == "http://minio:9000"
    assert (iceberg["s3.access-key-id"], iceberg["s3.request-timeout"]) == ("who", "7.0")
    assert TablePlace("/t").delta_options is None and TablePlace("/t").iceberg_properties == {}


def test_what_a_package_cannot_be_told_of_a_store_is_refused():
    role = {"fs.s3a.assumed.role.arn": "arn:x", "fs.s3a.endpoint": "http://minio:9000"}
    place = TablePlace("s3a://lake/t", store_of("s3a://lake/t", role.get))
    for spelled in (lambda: place.delta_options, lambda: place.iceberg_properties):
        with pytest.raises(UnreadableError, match="no setting for role_arn of s3a://lake"):
            spelled()
    proxy = {"fs.s3a.proxy.host": "proxy", "fs.s3a.endpoint": "http://minio:9000"}
    place = TablePlace("s3a://lake/t", store_of("s3a://lake/t", proxy.get))
    assert place.delta_options["proxy_url"] == "http://proxy:80"
    assert place.iceberg_properties["s3.proxy-uri"] == "http://proxy:80"
