"""Parquet times stored as INT96, which Spark writes by default, and those that sqlwin writes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

import sqlwin
from runtime.spark.session import start_session

AT = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
BEFORE_1970 = dt.datetime(1944, 6, 6, 6, 30, 0, 123456, tzinfo=dt.UTC)
TYPE = "spark.sql.parquet.outputTimestampType"
TABLE = "CREATE TABLE t{columns} WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')"
COLUMNS = " (id BIGINT, at TIMESTAMP_LTZ(6), ats ARRAY<TIMESTAMP_LTZ(6)>)"


@pytest.fixture
def int96(tmp_path: Path) -> Path:
    """Write a file with INT96 at the top level and in an array."""
    time = pa.timestamp("ns")
    naive = [at.replace(tzinfo=None) for at in (AT, BEFORE_1970)]
    columns = {
        "id": pa.array([1, 2, 3]),
        "at": pa.array([*naive, None], time),
        "ats": pa.array([naive, [], None], pa.list_(time)),
    }
    path = tmp_path / "int96.parquet"
    pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=True)
    assert stored_type(path, 1) == "INT96"
    return path


def stored_type(file: Path, column: int) -> str:
    return str(pq.ParquetFile(file).schema.column(column).physical_type)


def rows(session: sqlwin.Session, query: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, session.execute(query)[-1].rows), key=repr)


@pytest.mark.variants(1)
@pytest.mark.parametrize("mode", ["batch", "streaming"])
@pytest.mark.parametrize("columns", ["", COLUMNS], ids=["undeclared", "declared"])
def test_int96_is_an_instant(
    fresh_session: sqlwin.Session, int96: Path, mode: str, columns: str
) -> None:
    session = fresh_session
    session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    session.execute(TABLE.format(columns=columns, path=int96))
    result = rows(session, "SELECT id, unix_micros(at), transform(ats, a -> unix_micros(a)) FROM t")
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    micros = [(at - epoch) // dt.timedelta(microseconds=1) for at in (AT, BEFORE_1970)]
    assert result == [(1, micros[0], micros), (2, micros[1], []), (3, None, None)]
    types = set(rows(session, "SELECT typeof(at), typeof(ats) FROM t"))
    assert types == {("timestamp", "array<timestamp>")}


@pytest.mark.variants(1)
@pytest.mark.parametrize("mode", ["batch", "streaming"])
@pytest.mark.parametrize("rule", ["", "push_local_aggregate_into_scan"], ids=["arrow", "spark"])
def test_windows_over_int96(
    fresh_session: sqlwin.Session, int96: Path, mode: str, rule: str
) -> None:
    session = fresh_session
    session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    session.execute(f"SET 'sqlwin.optimizer.disabled-rules' = '{rule}'")
    columns = "(id BIGINT, at TIMESTAMP_LTZ(6), WATERMARK FOR at AS at)"
    session.execute(TABLE.format(columns=columns, path=int96))
    query = (
        "SELECT MIN(id), UNIX_MICROS(MIN(at)) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL"
        " '1' HOUR)) GROUP BY window_start, window_end HAVING MIN(id) = 1"
    )
    assert ("ArrowScanLocalWindowAggregate" in session.explain(query)) is (rule == "")
    assert rows(session, query) == [(1, int(AT.timestamp()) * 1_000_000)]


def test_a_file_by_its_path(session: sqlwin.Session, int96: Path) -> None:
    assert rows(session, f"SELECT id FROM '{int96}' WHERE unix_micros(at) < 0") == [(2,)]


@pytest.mark.variants(1)
@pytest.mark.parametrize("times", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_inserted_rows_are_read_again(
    fresh_session: sqlwin.Session, tmp_path: Path, times: str
) -> None:
    session = fresh_session
    before = session.spark.conf.get(TYPE)
    session.spark.conf.set(TYPE, times)
    try:
        session.execute(
            TABLE.format(columns=" (id INT, at TIMESTAMP_LTZ(3))", path=tmp_path / "w")
            + "; INSERT INTO t VALUES (1, TIMESTAMP_LTZ '2026-06-01 12:00:00')"
        )
        (file,) = (tmp_path / "w").glob("*.parquet")
        assert stored_type(file, 1) == ("INT96" if times == "INT96" else "INT64")
        assert rows(session, "SELECT id, unix_micros(at) FROM t") == [
            (1, int(AT.timestamp()) * 1_000_000)
        ]
    finally:
        session.spark.conf.set(TYPE, str(before))


@pytest.mark.variants(1)
@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_insert_writes_microseconds(
    fresh_session: sqlwin.Session, int96: Path, tmp_path: Path, mode: str
) -> None:
    session = fresh_session
    session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    session.execute(TABLE.format(columns=COLUMNS, path=int96))
    session.execute(
        f"CREATE TABLE w (id BIGINT, at TIMESTAMP_LTZ(6)) PARTITIONED BY (id) WITH ("
        f"'connector' = 'filesystem', 'path' = '{tmp_path / 'w'}', 'format' = 'parquet');"
        "INSERT INTO w SELECT id, at FROM t WHERE at IS NOT NULL"
    )
    for stream in session.streams.all():
        stream.wait()
    files = list((tmp_path / "w").rglob("*.parquet"))
    assert {stored_type(file, 0) for file in files} == {"INT64"}


def test_a_session_on_a_passed_spark_writes_microseconds(spark) -> None:
    context = SparkContext._active_spark_context
    assert context is not None
    assert start_session().conf.get(TYPE) == "TIMESTAMP_MICROS"
    assert start_session(conf={TYPE: "INT96"}).conf.get(TYPE) == "INT96"
