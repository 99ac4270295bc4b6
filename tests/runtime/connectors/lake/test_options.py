"""Options of lake tables in CREATE TABLE, and the errors without their packages."""

import sys

import pytest

from runtime.connectors.lake.delta.snapshot import open_delta
from runtime.connectors.lake.iceberg.snapshot import (
    from_catalog,
    from_path,
    open_catalog,
    table_name,
)
from runtime.connectors.registry import open_table
from runtime.errors import CatalogError, SetupError
from runtime.lake.places import TablePlace
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
    open_table(spec).check()


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
        (
            TableSpec(
                "t", "delta", options=(("path", "p"), ("scan.changes", "true"), ("version", "1"))
            ),
            "options 'version' and 'scan.changes' exclude each other",
        ),
        (
            spec_of("delta", path="p", starting_version="1"),
            "option 'starting-version' requires 'scan.changes' = 'true'",
        ),
        (
            spec_of("delta", path="p", starting_timestamp="yesterday"),
            "invalid value 'yesterday' for option 'starting-timestamp'",
        ),
        (spec_of("delta", path="p", versoin="1"), "unknown option 'versoin'"),
        (spec_of("iceberg"), "option 'path' is missing, and no catalog is set"),
        (spec_of("iceberg", path="p", uri="x"), "option 'path' is missing, and no catalog is set"),
    ],
)
def test_these_are_refused(spec, message):
    with pytest.raises(CatalogError, match=message):
        open_table(spec).check()


def test_a_missing_package_is_named_with_its_extra(monkeypatch, tmp_path):
    for name in [
        module for module in sys.modules if module.split(".")[0] in ("deltalake", "pyiceberg")
    ]:
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
        assert error.value.hint == "pip install '.[lake]' in a clone of sqlwin"


def test_a_table_is_in_a_database_of_its_catalog():
    assert table_name(spec_of("iceberg")) == ("default", "t")
    assert table_name(spec_of("iceberg", catalog_table="x.y")) == ("x", "y")
    assert table_name(spec_of("iceberg", catalog_database="d")) == ("d", "t")


def test_properties_of_a_catalog_may_begin_in_any_case():
    options = (("catalog-type", "in-memory"), ("Catalog.Some.Key", "x"))
    spec = TableSpec("t", "iceberg", options=options)
    open_table(spec).check()
    assert open_catalog(spec).properties["Some.Key"] == "x"
