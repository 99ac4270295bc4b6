"""The same statements over Delta and Iceberg: writing, scans, versions and streams."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import sqlwin
from runtime.errors import ExecutionError
from tests.end_to_end.lake.test_delta import COUNTS, START, rows_of, values
from tests.end_to_end.lake.test_iceberg import catalog_in, options
from tests.observing import wait_for_stream

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Lake:
    """Tables of a lake, read and written by its own library.

    Attributes:
        options: Options of a table for CREATE TABLE.
        append: Appends rows to a table, which is created if it does not exist.
        rows: Rows of a table. None if it does not exist.
        versions: Versions of a table, the oldest first.
    """

    options: Callable[[str], str]
    append: Callable[[str, pa.Table], object]
    rows: Callable[[str], pa.Table | None]
    versions: Callable[[str], list[int]]


def delta(directory: Path) -> Lake:
    def rows(name: str) -> pa.Table | None:
        if not DeltaTable.is_deltatable(str(directory / name)):
            return None
        return DeltaTable(directory / name).to_pyarrow_table()

    return Lake(
        lambda name: f"'connector' = 'delta', 'path' = '{directory}/{name}'",
        lambda name, part: write_deltalake(directory / name, part, mode="append"),
        rows,
        lambda name: [*range(DeltaTable(directory / name).version() + 1)],
    )


def iceberg(directory: Path) -> Lake:
    catalog = catalog_in(directory)

    def rows(name: str) -> pa.Table | None:
        if not catalog.table_exists(f"db.{name}"):
            return None
        return catalog.load_table(f"db.{name}").scan().to_arrow()

    def append(name: str, part: pa.Table) -> None:
        catalog.create_table_if_not_exists(f"db.{name}", schema=part.schema).append(part)

    return Lake(
        lambda name: options(directory, name),
        append,
        rows,
        lambda name: [s.snapshot_id for s in catalog.load_table(f"db.{name}").snapshots()],
    )


@pytest.fixture(params=[delta, iceberg], ids=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    result: Lake = request.param(tmp_path)
    return result


def column(lake: Lake, table: str, name: str) -> list[int]:
    """Return the sorted values of a column, none if the table does not exist."""
    rows = lake.rows(table)
    return [] if rows is None else sorted(rows[name].to_pylist())


def test_a_table_is_created_appended_to_replaced_and_scanned(
    fresh_session: sqlwin.Session, lake: Lake
) -> None:
    lake.append("source", rows_of(60))
    fresh_session.execute(f"""
        CREATE TABLE source WITH ({lake.options("source")});
        CREATE TABLE t (ts TIMESTAMP(3), v BIGINT, k INT) PARTITIONED BY (k)
        WITH ({lake.options("t")});
        INSERT INTO t SELECT ts, v, v % 3 FROM source;
        INSERT INTO t SELECT ts, v + 100, 2 FROM source WHERE v < 6;
        INSERT OVERWRITE t SELECT ts, -1, 1 FROM source WHERE v = 7""")
    expected = sorted([i for i in range(60) if i % 3 != 1] + [*range(100, 106), -1])
    assert column(lake, "t", "v") == expected
    assert [v for (v,) in values(fresh_session, "SELECT v FROM t")] == expected

    query = """SELECT k, window_end AS e, SUM(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts),
        INTERVAL '1' DAY)) WHERE k = 2 GROUP BY k, window_start, window_end"""
    assert "ArrowScanLocalWindowAggregate" in fresh_session.explain(query)
    s = sum(range(2, 60, 3)) + sum(range(100, 106))
    assert values(fresh_session, query) == [(2, START + dt.timedelta(days=1), s)]

    with pytest.raises(ExecutionError, match=r"[Dd]ivision by zero"):
        fresh_session.execute("INSERT INTO t SELECT ts, 1 / (v - 50), 0 FROM source")
    first, second, _ = lake.versions("t")
    for version, n_rows in ((first, 60), (second, 66)):
        count = f"SELECT COUNT(*) FROM t /*+ OPTIONS('version' = '{version}') */"
        assert values(fresh_session, count) == [(n_rows,)]


def test_a_stream_reads_each_row_of_versions_once_across_restarts(
    fresh_session: sqlwin.Session, lake: Lake, tmp_path: Path
) -> None:
    lake.append("source", rows_of(60))
    fresh_session.execute(f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/ck';
        CREATE TABLE t (ts TIMESTAMP(3), day DATE, v BIGINT, WATERMARK FOR ts AS ts)
        WITH ({lake.options("source")}, 'source.monitor-interval' = '200 ms');
        CREATE TABLE o (day DATE, e TIMESTAMP(3), n BIGINT, s BIGINT)
        WITH ({lake.options("out")})""")

    def written() -> list[int]:
        return column(lake, "out", "s")

    def run(*meanwhile: pa.Table, until: int) -> None:
        (result,) = fresh_session.execute(f"INSERT INTO o {COUNTS.format(where='')}")
        stream = result.stream
        assert stream is not None
        for rows in meanwhile:
            lake.append("source", rows)
        wait_for_stream(stream, lambda: len(written()) >= until, explain=written)
        stream.stop()

    run(until=5)
    # versions committed while it is stopped, and while it runs
    lake.append("source", rows_of(20, 60))
    lake.append("source", rows_of(40, 80))
    run(rows_of(10, 120), rows_of(20, 130), until=14)
    assert written() == [sum(range(i, i + 10)) for i in range(0, 140, 10)]
