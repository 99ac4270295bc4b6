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
from tests.end_to_end.lake.test_delta import COUNTS, START, rows_of, values
from tests.observing import wait_for_stream


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    places = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = load_catalog("default", type="sql", **places)
    catalog.create_namespace("db")
    return catalog


def options(tmp_path: Path, name: str) -> str:
    return (
        f"'connector' = 'iceberg', 'catalog-type' = 'sql', 'uri' = 'sqlite:///{tmp_path}/c.db', "
        f"'warehouse' = 'file://{tmp_path}/w', 'catalog-table' = 'db.{name}'"
    )


@pytest.mark.long
def test_a_table_is_created_appended_to_replaced_and_read(
    fresh_session: sqlwin.Session, catalog: Catalog, tmp_path: Path
) -> None:
    source = catalog.create_table("db.source", schema=rows_of(1).schema)
    source.append(rows_of(60))
    fresh_session.execute(f"""
        CREATE TABLE source WITH ({options(tmp_path, "source")});
        CREATE TABLE t (ts TIMESTAMP(3), v BIGINT, k INT) PARTITIONED BY (k)
        WITH ({options(tmp_path, "t")});
        INSERT INTO t SELECT ts, v, v % 3 FROM source;
        INSERT INTO t SELECT ts, v + 100, 2 FROM source WHERE v < 6;
        INSERT OVERWRITE t SELECT ts, -1, 1 FROM source WHERE v = 7""")
    table = catalog.load_table("db.t")
    assert len(table.snapshots()) == 3
    expected = sorted([i for i in range(60) if i % 3 != 1] + [*range(100, 106), -1])
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == expected
    assert [v for (v,) in values(fresh_session, "SELECT v FROM t")] == expected

    query = """SELECT k, window_end AS e, SUM(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts),
        INTERVAL '1' DAY)) WHERE k = 2 GROUP BY k, window_start, window_end"""
    assert "ArrowScanLocalWindowAggregate" in fresh_session.explain(query)
    s = sum(range(2, 60, 3)) + sum(range(100, 106))
    assert values(fresh_session, query) == [(2, START + dt.timedelta(days=1), s)]

    with pytest.raises(ExecutionError, match=r"[Dd]ivision by zero"):
        fresh_session.execute("INSERT INTO t SELECT ts, 1 / (v - 50), 0 FROM source")
    table.refresh()
    assert len(table.snapshots()) == 3

    first = table.snapshots()[0].snapshot_id
    count_sql = f"SELECT COUNT(*) FROM t /*+ OPTIONS('version' = '{first}') */"
    assert values(fresh_session, count_sql) == [(60,)]
    path = table.location().removeprefix("file://")
    fresh_session.execute(f"CREATE TABLE p WITH ('connector' = 'iceberg', 'path' = '{path}')")
    assert [v for (v,) in values(fresh_session, "SELECT v FROM p")] == expected
    with pytest.raises(CatalogError, match="option 'path' applies to reading only"):
        fresh_session.execute("INSERT INTO p SELECT ts, v, 1 FROM source")


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
def test_a_stream_reads_each_row_of_snapshots_once_across_restarts(
    fresh_session: sqlwin.Session, catalog: Catalog, tmp_path: Path
) -> None:
    source = catalog.create_table("db.source", schema=rows_of(1).schema)
    source.append(rows_of(60))
    fresh_session.execute(f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/ck';
        CREATE TABLE t (ts TIMESTAMP(3), day DATE, v BIGINT, WATERMARK FOR ts AS ts)
        WITH ({options(tmp_path, "source")}, 'source.monitor-interval' = '200 ms');
        CREATE TABLE o (day DATE, e TIMESTAMP(3), n BIGINT, s BIGINT)
        WITH ({options(tmp_path, "out")})""")

    def written() -> list[int]:
        if not catalog.table_exists("db.out"):
            return []
        return sorted(catalog.load_table("db.out").scan().to_arrow()["s"].to_pylist())

    def run(*meanwhile: pa.Table, until: int) -> None:
        (result,) = fresh_session.execute(f"INSERT INTO o {COUNTS.format(where='')}")
        stream = result.stream
        assert stream is not None
        for rows in meanwhile:
            source.append(rows)
        wait_for_stream(stream, lambda: len(written()) >= until, explain=written)
        stream.stop()

    run(until=5)
    # snapshots committed while it is stopped, and while it runs
    source.append(rows_of(20, 60))
    source.append(rows_of(40, 80))
    run(rows_of(10, 120), rows_of(20, 130), until=14)
    assert written() == [sum(range(i, i + 10)) for i in range(0, 140, 10)]
    batches = [
        int(str(snapshot.summary["sqlwin.micro-batch"]))
        for snapshot in catalog.load_table("db.out").snapshots()
        if snapshot.summary is not None
    ]
    assert len(batches) == len(set(batches)) >= 2


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
