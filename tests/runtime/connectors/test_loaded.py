"""A table without declared columns is loaded once, and again when it changes."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin


def write(path: Path, **columns: list[object]) -> None:
    pq.write_table(pa.table(columns), path)


def n_jobs(session: sqlwin.Session) -> int:
    status = session.spark.sparkContext.statusTracker()
    return len(status.getJobIdsForGroup(None))


@pytest.fixture
def files(tmp_path: Path, fresh_session: sqlwin.Session) -> Path:
    """Return the directory of a table `t` with one file that has been read."""
    write(tmp_path / "a.parquet", n=[1, 2])
    fresh_session.execute(
        f"CREATE TABLE t WITH ('connector'='filesystem','format'='parquet','path'='{tmp_path}')"
    )
    assert rows(fresh_session) == [(1,), (2,)]
    return tmp_path


def rows(session: sqlwin.Session) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in session.sql("SELECT * FROM t").collect())


def test_files_that_are_the_same_are_looked_at_once(
    files: Path, fresh_session: sqlwin.Session
) -> None:
    before = n_jobs(fresh_session)
    for _ in range(3):
        assert fresh_session.sql("SELECT * FROM t").columns == ["n"]
    assert n_jobs(fresh_session) == before


def test_added_and_removed_files_are_detected(files: Path, fresh_session: sqlwin.Session) -> None:
    write(files / "b.parquet", n=[3])
    assert rows(fresh_session) == [(1,), (2,), (3,)]
    (files / "a.parquet").unlink()
    assert rows(fresh_session) == [(3,)]
    (files / "b.parquet").unlink()
    with pytest.raises(sqlwin.SqlwinError, match=r"(?i)no .*(file|column|schema)|cannot"):
        rows(fresh_session)


def test_a_file_of_other_columns_in_the_place_of_one_is_seen(
    files: Path, fresh_session: sqlwin.Session
) -> None:
    write(files / "a.parquet", text=["x"])
    assert fresh_session.sql("SELECT * FROM t").columns == ["text"]
    assert rows(fresh_session) == [("x",)]


def test_a_file_of_the_same_size_and_time_in_the_place_of_one_is_seen(
    files: Path, fresh_session: sqlwin.Session
) -> None:
    old = (files / "a.parquet").stat()
    write(files / ".new", m=[1, 2])
    assert (files / ".new").stat().st_size == old.st_size
    os.utime(files / ".new", ns=(old.st_atime_ns, old.st_mtime_ns))
    (files / ".new").replace(files / "a.parquet")
    assert fresh_session.sql("SELECT * FROM t").columns == ["m"]


def test_a_new_directory_of_partitions_is_seen(files: Path, fresh_session: sqlwin.Session) -> None:
    (files / "a.parquet").unlink()
    (files / "day=1").mkdir()
    write(files / "day=1" / "a.parquet", n=[1])
    assert fresh_session.sql("SELECT * FROM t").columns == ["n", "day"]
    (files / "day=2").mkdir()
    write(files / "day=2" / "a.parquet", n=[2])
    assert rows(fresh_session) == [(1, 1), (2, 2)]


def test_a_setting_of_spark_is_heeded(files: Path, fresh_session: sqlwin.Session) -> None:
    write(files / "b.parquet", n=[3], m=[4])
    assert fresh_session.sql("SELECT * FROM t").columns == ["n"]
    fresh_session.spark.conf.set("spark.sql.parquet.mergeSchema", "true")
    try:
        assert fresh_session.sql("SELECT * FROM t").columns == ["n", "m"]
    finally:
        fresh_session.spark.conf.unset("spark.sql.parquet.mergeSchema")


def test_a_table_of_the_same_name_elsewhere_is_another(
    files: Path, fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write(other / "a.parquet", n=[9])
    fresh_session.execute(
        "CREATE OR REPLACE TABLE t WITH "
        f"('connector'='filesystem','format'='parquet','path'='{other}')"
    )
    assert rows(fresh_session) == [(9,)]
