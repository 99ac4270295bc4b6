"""A declared table without files has no rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlwin
from sqlwin.result import RowsResult, StreamedRows
from tests.marks import among

TABLE = """
    CREATE TABLE sink (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) {partitioned}
    WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}')
"""
WINDOWS = (
    "SELECT window_end, SUM(v) AS s FROM TABLE(TUMBLE(TABLE sink, DESCRIPTOR(ts), "
    "INTERVAL '1' DAY)) GROUP BY window_start, window_end"
)


def create(db: sqlwin.Session, path: Path, format_: str = "parquet", partitioned: str = "") -> None:
    db.execute(TABLE.format(path=path, format=format_, partitioned=partitioned))


@pytest.mark.variants(1)
@pytest.mark.parametrize("format_", ["parquet", "orc", "csv", "json"])
def test_a_table_without_files_is_empty_until_written_in_batch(
    fresh_session: sqlwin.Session, tmp_path: Path, format_: str
) -> None:
    create(fresh_session, tmp_path / "not" / "there", format_)
    assert fresh_session.sql("SELECT * FROM sink").collect() == []
    assert fresh_session.sql("SELECT COUNT(*) FROM sink").first() == (0,)
    assert fresh_session.sql(WINDOWS).collect() == []
    assert not (tmp_path / "not").exists(), "a query in batch makes no directory"
    fresh_session.execute("INSERT INTO sink VALUES ('a', 1, TIMESTAMP_NTZ '2026-01-01 00:00:00')")
    assert fresh_session.sql("SELECT k, v FROM sink").collect() == [("a", 1)]


@pytest.mark.long
@pytest.mark.parametrize("format_", among(["parquet", "csv", "json"], long=["json"]))
def test_it_is_empty_as_a_stream(
    fresh_session: sqlwin.Session, tmp_path: Path, format_: str
) -> None:
    create(fresh_session, tmp_path / "there", format_)
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    (result,) = fresh_session.execute(WINDOWS)
    assert isinstance(result, RowsResult) and isinstance(result.data, StreamedRows)
    assert list(result.batches()) == []


def test_partitions_and_metadata_are_empty_too(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    create(fresh_session, tmp_path / "there", partitioned="PARTITIONED BY (k)")
    assert fresh_session.sql("SELECT * FROM sink WHERE k = 'a'").collect() == []
    fresh_session.execute(f"""
        CREATE TABLE of_files (v INT, name STRING METADATA FROM 'file.name')
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/there', 'format' = 'csv')
    """)
    assert fresh_session.sql("SELECT v, name FROM of_files").collect() == []


@pytest.mark.parametrize("name", ["there.parquet", "*.parquet", "part-*"])
def test_a_missing_file_is_an_error_as_before(
    fresh_session: sqlwin.Session, tmp_path: Path, name: str
) -> None:
    create(fresh_session, tmp_path / name)
    with pytest.raises(sqlwin.SqlwinError, match=r"does not exist|no file matches"):
        fresh_session.sql("SELECT * FROM sink")


def test_undeclared_columns_need_a_file(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    with pytest.raises(sqlwin.SqlwinError, match="does not exist"):
        fresh_session.execute(f"""
            CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/there',
            'format' = 'parquet'); SELECT * FROM t
        """)
