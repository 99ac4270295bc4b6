"""Session tables in Spark's own statements and listings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.errors import CatalogError, ExecutionError
from runtime.lake.places import TablePlace
from runtime.records import round_trip, to_text
from runtime.redaction import DEFAULT
from runtime.spec.table import TableColumn, TableSpec, Watermark
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.definitions import refuse_session_table
from sqlwin.catalog.entries import Definition
from sqlwin.catalog.listings import show_create_table
from sqlwin.catalog.opening import open_materialized
from sqlwin.statements.parse import parse_statement


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
        refuse_session_table(catalog_with("int"), parse_statement(text))
    error = caught.value
    assert error.position is not None
    result = text[error.position.offset : error.position.offset + error.position.length]
    assert result == (name or "default_catalog.default_database.`bids`")
    assert "a table of CREATE TABLE ... WITH" in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    "text",
    ["ALTER TABLE others RENAME TO bids", "ALTER TABLE db.bids RENAME TO c", "ALTER", "CACHE TABLE bids"],
)  # fmt: skip
def test_other_statements_are_sparks(text: str) -> None:
    refuse_session_table(catalog_with("int"), parse_statement(text))


@pytest.mark.parametrize(
    ("type_", "shown"),
    [
        ("decimal(10,2)", "DECIMAL(10, 2)"),
        ("struct<a: int, `b C`: array<string>>", "ROW<`a` INT, `b C` ARRAY<STRING>>"),
        ("map<string, struct<x: int>>", "MAP<STRING, ROW<`x` INT>>"),
    ],
)
def test_a_column_without_a_text_of_the_user_is_shown_in_the_words_of_create_table(
    type_: str, shown: str
) -> None:
    result = show_create_table(catalog_with(type_), ("bids",), DEFAULT, cast(Any, None))
    (statement,) = result.column(0).to_pylist()
    assert f"`a` {shown}\n" in statement


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        ("{", "no JSON"),
        ("{}", "field `query` is missing"),
        (to_text(Definition("SELECT 1")).replace("query", "sql"), "unknown field `sql`"),
    ],
)
def test_a_materialized_table_with_a_damaged_definition_cannot_be_read(
    definition: str, problem: str
) -> None:
    stored = SimpleNamespace(definition=definition, place=TablePlace("/data/m"))
    catalog = SimpleNamespace(slices=SimpleNamespace(stored=lambda path, name: stored))
    with pytest.raises(ExecutionError, match=f"/data/m: {problem}"):
        open_materialized(cast(Any, catalog), ("m",), "/data/m")


def test_a_definition_is_read_as_it_was_written() -> None:
    table = TableSpec(
        "bids", "kafka", (TableColumn("a", "int"),), (("topic", "t"),),
        watermark=Watermark("ts", "ts"), storage="memory 1",
    )  # fmt: skip
    definition = Definition(
        "SELECT 1", (table,), ((("v",), "SELECT 2", ("a", "b")),), ("a",), "1 h", None,
        "CONTINUOUS", (TableColumn("a", None),), (("x", "y"),),
    )  # fmt: skip
    assert round_trip(definition) == definition
    assert round_trip(definition).tables[0].storage == ""
