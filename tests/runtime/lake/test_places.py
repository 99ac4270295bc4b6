"""Places of lake tables: paths in logs, and options of stores for the libraries."""

import pytest

from runtime.connectors.lake.iceberg.properties import iceberg_properties
from runtime.lake.places import TablePlace, UnreadableError
from runtime.scan.stores import Store, store_of


def test_files_are_found_by_their_names_in_logs():
    place = TablePlace("/t")
    assert place.file("a%20b/c") == "/t/a b/c"
    assert place.file("a%20b/c", is_escaped=False) == "/t/a%20b/c"
    assert place.file("file:///x/y%3D1") == "/x/y=1"
    assert place.file("file:/x/y") == place.file("/x/y") == "/x/y"
    with pytest.raises(UnreadableError, match="is not on a local file system"):
        place.file("s3://bucket/x")


def test_files_in_a_store_are_under_the_scheme_of_the_table():
    other = TablePlace("s3a://lake/t", Store("s3", "s3a://lake", "lake"))
    assert other.file("a%20b/c") == "s3a://lake/t/a b/c"
    assert other.file("s3://lake/t/a%20b", is_escaped=False) == "s3a://lake/t/a%20b"
    for elsewhere in ("s3://other/x", "file:///x", "gs://lake/x"):
        with pytest.raises(UnreadableError, match="is outside s3a://lake"):
            other.file(elsewhere)


def test_stores_are_opened_with_hadoops_settings():
    settings = {
        "fs.s3a.endpoint": "http://minio:9000",
        "fs.s3a.access.key": "who",
        "fs.s3a.secret.key": "what",
        "fs.s3a.connection.timeout": "7s",
    }
    store = store_of("s3a://lake/t", settings.get)
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
    iceberg = iceberg_properties(TablePlace("s3a://lake/t", store))
    assert iceberg["s3.endpoint"] == "http://minio:9000"
    assert (iceberg["s3.access-key-id"], iceberg["s3.request-timeout"]) == ("who", "7.0")
    assert TablePlace("/t").delta_options is None and iceberg_properties(TablePlace("/t")) == {}


def test_settings_that_a_package_lacks_are_refused():
    role = {"fs.s3a.assumed.role.arn": "arn:x", "fs.s3a.endpoint": "http://minio:9000"}
    place = TablePlace("s3a://lake/t", store_of("s3a://lake/t", role.get))
    for spelled in (lambda: place.delta_options, lambda: iceberg_properties(place)):
        with pytest.raises(
            UnreadableError, match="does not support role_arn, which is set for s3a://lake"
        ):
            spelled()
    proxy = {"fs.s3a.proxy.host": "proxy", "fs.s3a.endpoint": "http://minio:9000"}
    place = TablePlace("s3a://lake/t", store_of("s3a://lake/t", proxy.get))
    assert place.delta_options["proxy_url"] == "http://proxy:80"
    assert iceberg_properties(place)["s3.proxy-uri"] == "http://proxy:80"
