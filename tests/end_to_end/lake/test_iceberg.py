"""Iceberg tables in SQL: writing through a catalog, reading by the Arrow scan and by Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import IntegerType

import sqlwin
from runtime.errors import CatalogError, ExecutionError
from tests.end_to_end.lake.test_delta import START, rows_of, values


def catalog_in(directory: Path) -> Catalog:
    """Return an empty catalog, whose files are in a directory."""
    places = {"uri": f"sqlite:///{directory}/c.db", "warehouse": f"file://{directory}/w"}
    catalog = load_catalog("default", type="sql", **places)
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return catalog_in(tmp_path)


def options(tmp_path: Path, name: str) -> str:
    return (
        f"'connector' = 'iceberg', 'catalog-type' = 'sql', 'uri' = 'sqlite:///{tmp_path}/c.db', "
        f"'warehouse' = 'file://{tmp_path}/w', 'catalog-table' = 'db.{name}'"
    )


@pytest.mark.long
def test_a_table_by_its_path_is_only_read(
    fresh_session: sqlwin.Session, catalog: Catalog, tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", schema=rows_of(1).schema)
    table.append(rows_of(3))
    path = table.location().removeprefix("file://")
    fresh_session.execute(f"CREATE TABLE p WITH ('connector' = 'iceberg', 'path' = '{path}')")
    assert [v for (v,) in values(fresh_session, "SELECT v FROM p")] == [0, 1, 2]
    with pytest.raises(CatalogError, match="option 'path' applies to reading only"):
        fresh_session.execute("INSERT INTO p SELECT ts, day, v FROM p")


@pytest.mark.slow
def test_columns_that_were_renamed_and_added_are_read_by_spark_too(
    fresh_session: sqlwin.Session, catalog: Catalog, tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", schema=rows_of(1).schema)
    table.append(rows_of(30))
    with table.update_schema() as update:
        update.rename_column("v", "value")
        update.add_column("later", IntegerType())
    more = rows_of(10, 30).rename_columns(["ts", "day", "value"])
    table.append(more.append_column("later", pa.array([5] * 10, pa.int32())))
    fresh_session.execute(f"CREATE TABLE t WITH ({options(tmp_path, 't')})")
    actual = values(fresh_session, "SELECT value, later FROM t WHERE value IN (3, 33)")
    assert actual == [(3, None), (33, 5)]
    query = """SELECT window_end AS e, SUM(value) AS s, COUNT(later) AS n FROM TABLE(TUMBLE(
        TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end"""
    assert "ArrowScanLocalWindowAggregate" in fresh_session.explain(query)
    assert values(fresh_session, query) == [(START + dt.timedelta(days=1), 780, 10)]


@pytest.mark.long
def test_columns_that_no_file_has_are_a_note_or_an_error(
    fresh_session: sqlwin.Session, catalog: Catalog, tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", rows_of(6).schema)
    table.append(rows_of(6))
    with table.update_schema() as update:
        update.add_column("later", IntegerType())
    fresh_session.execute(f"CREATE TABLE t WITH ({options(tmp_path, 't')})")
    (result,) = fresh_session.execute("SELECT v, later FROM t")
    assert all(row.later is None for row in result.rows)
    assert result.notes == ("no file of `t` has the column `later`, which is NULL in all rows",)
    with table.update_schema(allow_incompatible_changes=True) as update:
        for name in ("ts", "day", "v"):
            update.delete_column(name)
    with pytest.raises(ExecutionError, match="its files have none of its columns: column `later`"):
        fresh_session.execute("CREATE OR REPLACE TABLE t WITH (" + options(tmp_path, "t") + ")")
        fresh_session.execute("SELECT later FROM t")
