"""Tables of the session where Spark's own statements and listings meet them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.connectors.lake.places import TablePlace
from runtime.errors import CatalogError, ExecutionError
from runtime.redaction import DEFAULT
from runtime.spec.table import TableColumn, TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.definitions import refuse_kept_table
from sqlwin.catalog.listings import show_create_table
from sqlwin.catalog.opening import open_materialized


def catalog_with(type_: str) -> SessionCatalog:
    catalog = SessionCatalog(cast(Any, None), cast(Any, None))
    spec = TableSpec("bids", "datagen", (TableColumn("a", type_),), ())
    catalog.add(("bids",), spec, replace=False, if_not_exists=False)
    return catalog


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ("ALTER TABLE Bids RENAME TO offers", "Bids", "use CREATE OR REPLACE"),
        ("alter view bids AS SELECT 1", "bids", "use CREATE OR REPLACE"),
        ("TRUNCATE TABLE default_catalog.default_database.`bids`", None, "INSERT OVERWRITE"),
        ("ANALYZE TABLE bids COMPUTE STATISTICS", "bids", "remove the statement"),
        ("DELETE FROM bids WHERE a = 1", "bids", "INSERT OVERWRITE"),
        ("UPDATE bids SET a = 1", "bids", "INSERT OVERWRITE"),
        (
            "MERGE INTO bids USING s ON bids.a = s.a WHEN MATCHED THEN DELETE",
            "bids",
            "use CREATE OR REPLACE",
        ),
    ],
)
def test_a_table_of_the_session_is_not_changed_behind_its_back(
    text: str, name: str | None, hint: str
) -> None:
    with pytest.raises(CatalogError) as caught:
        refuse_kept_table(catalog_with("int"), text)
    error = caught.value
    assert error.position is not None
    found = text[error.position.offset : error.position.offset + error.position.length]
    assert found == (name or "default_catalog.default_database.`bids`")
    assert "a table of CREATE TABLE ... WITH" in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    "text",
    ["ALTER TABLE others RENAME TO bids", "ALTER TABLE db.bids RENAME TO c", "ALTER", "CACHE TABLE bids"],
)  # fmt: skip
def test_other_statements_are_sparks(text: str) -> None:
    refuse_kept_table(catalog_with("int"), text)


@pytest.mark.parametrize(
    ("type_", "shown"),
    [
        ("decimal(10,2)", "DECIMAL(10,2)"),
        ("struct<a: int, `b C`: array<string>>", "STRUCT<a: INT, `b C`: ARRAY<STRING>>"),
        ("map<string, struct<x: int>>", "MAP<STRING, STRUCT<x: INT>>"),
    ],
)
def test_fields_of_a_type_are_shown_as_they_are_written(type_: str, shown: str) -> None:
    found = show_create_table(catalog_with(type_), ("bids",), DEFAULT, cast(Any, None))
    (statement,) = found.column(0).to_pylist()
    assert f"`a` {shown}\n" in statement


@pytest.mark.parametrize("definition", [{}, {"query": "SELECT 1", "views": [], "tables": [{}]}])
def test_a_materialized_table_with_a_damaged_definition_cannot_be_read(
    definition: dict[str, Any],
) -> None:
    stored = SimpleNamespace(definition=definition, place=TablePlace("/data/m"))
    catalog = SimpleNamespace(slices=SimpleNamespace(stored=lambda path, name: stored))
    with pytest.raises(ExecutionError, match="/data/m"):
        open_materialized(cast(Any, catalog), ("m",), "/data/m")
