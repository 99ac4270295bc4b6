"""Slices over lake tables follow the versions: new, rewritten and removed files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

import sqlwin
from runtime.errors import SqlwinError
from runtime.materialized.store import open_slices
from tests.end_to_end.materialized.base import QUERY, random_rows, refresh, slices_of, stored_slices

WINDOWS = """
SELECT city, window_end, COUNT(*) AS n, SUM(fare) AS s, MIN(fare) AS low FROM (
  SELECT *, UNNEST(RANGE(TIME_BUCKET(INTERVAL 10 MINUTES, ts) + INTERVAL 10 MINUTES,
    TIME_BUCKET(INTERVAL 10 MINUTES, ts) + INTERVAL 61 MINUTES, INTERVAL 10 MINUTES)) AS window_end
  FROM rows WHERE ts IS NOT NULL) GROUP BY ALL"""


class Lake(Protocol):
    """A lake table."""

    options: str

    def append(self, rows: pa.Table) -> None:
        """Commit a version with more rows."""

    def delete_hour(self, hour: int) -> None:
        """Commit a version without the rows of an hour, which rewrites files."""

    def compact(self) -> bool:
        """Commit a version with the same rows in other files.

        Return False if that is impossible here.
        """

    def rows(self) -> pa.Table:
        """Return the rows of the newest version."""


class Delta:
    def __init__(self, root: Path) -> None:
        self._path = root / "delta"
        self.options = f"'connector' = 'delta', 'path' = '{self._path}'"

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self._path, rows, mode="append")

    def delete_hour(self, hour: int) -> None:
        type_ = "Timestamp(Microsecond, None)"
        first, last = (
            f"arrow_cast('2024-01-01 {item:02}:00:00', '{type_}')" for item in (hour, hour + 1)
        )
        DeltaTable(self._path).delete(f"ts >= {first} AND ts < {last}")

    def compact(self) -> bool:
        DeltaTable(self._path).optimize.compact()
        return True

    def rows(self) -> pa.Table:
        return DeltaTable(self._path).to_pyarrow_table()


class Iceberg:
    def __init__(self, root: Path) -> None:
        places = {"uri": f"sqlite:///{root}/c.db", "warehouse": f"file://{root}/w"}
        catalog = load_catalog("default", type="sql", **places)
        catalog.create_namespace("db")
        self._table = catalog.create_table("db.trips", random_rows(random.Random(), 1).schema)
        self.options = (
            f"'connector' = 'iceberg', 'catalog-type' = 'sql', 'uri' = '{places['uri']}', "
            f"'warehouse' = '{places['warehouse']}', 'catalog-table' = 'db.trips'"
        )

    def append(self, rows: pa.Table) -> None:
        self._table.append(rows)

    def delete_hour(self, hour: int) -> None:
        first, last = (f"2024-01-01T{item:02}:00:00" for item in (hour, hour + 1))
        self._table.delete(f"ts >= '{first}' AND ts < '{last}'")

    def compact(self) -> bool:
        return False

    def rows(self) -> pa.Table:
        return self._table.scan().to_arrow()


LAKES: dict[str, type[Delta] | type[Iceberg]] = {"delta": Delta, "iceberg": Iceberg}


@pytest.mark.long
@pytest.mark.parametrize("kind", list(LAKES))
def test_a_refresh_reads_the_changes_of_new_versions(
    fresh_session: sqlwin.Session, tmp_path: Path, kind: str
) -> None:
    draw = random.Random(5)
    lake = LAKES[kind](tmp_path)
    for hour in range(0, 24, 8):
        lake.append(random_rows(draw, 300, hour * 60, (hour + 8) * 60))
    fresh_session.execute(f"CREATE TABLE trips WITH ({lake.options})")
    path = tmp_path / "m"
    fresh_session.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{path}') AS {QUERY}")
    assert stored_slices(path) == slices_of(lake.rows())

    # late rows only add partials
    before = open_slices(str(path)).files
    lake.append(random_rows(draw, 40, 60, 120))
    check_answers(fresh_session, lake, tail="tail=[1 file]")
    assert "1 new file; 40 rows read" in refresh(fresh_session)
    assert stored_slices(path) == slices_of(lake.rows())
    assert set(before) < set(open_slices(str(path)).files)

    # a file is rewritten: only files with rows in its slices are read again
    lake.delete_hour(20)
    message = refresh(fresh_session)
    assert "1 new file, 1 lost file" in message
    assert int(message.split("; ")[1].split(" ")[0]) < 320
    assert stored_slices(path) == slices_of(lake.rows())
    check_answers(fresh_session, lake)

    if lake.compact():
        refresh(fresh_session)
        assert stored_slices(path) == slices_of(lake.rows())
    assert "is up to date" in refresh(fresh_session)


@pytest.mark.slow
def test_a_base_file_that_vanished_below_its_version_is_named(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    lake = Delta(tmp_path)
    lake.append(random_rows(random.Random(1), 50))
    fresh_session.execute(f"CREATE TABLE trips WITH ({lake.options})")
    fresh_session.execute(
        f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path / 'm'}') AS {QUERY}"
    )
    lake.append(random_rows(random.Random(2), 50))
    files = sorted((tmp_path / "delta").glob("*.parquet"))[0]
    files.unlink()
    with pytest.raises(SqlwinError, match=files.name):
        refresh(fresh_session)
    assert open_slices(str(tmp_path / "m")).version == 1


@pytest.mark.long
def test_secrets_of_base_tables_are_in_no_definition(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    lake = Iceberg(tmp_path)
    lake.append(random_rows(random.Random(1), 50))
    table = (
        f"CREATE TABLE trips WITH ({lake.options}, 'catalog.s3.secret-access-key' = 'only-ours')"
    )
    fresh_session.execute(table)
    fresh_session.execute(
        f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path / 'm'}') AS {QUERY}"
    )
    written = [path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file()]
    assert written and not any(b"only-ours" in item for item in written)
    check_answers(fresh_session, lake)
    other = sqlwin.connect(fresh_session.spark.newSession())
    opened = f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path / 'm'}')"
    other.execute(opened)
    with pytest.raises(SqlwinError, match=r"'catalog\.s3\.secret-access-key' is secret") as raised:
        refresh(other)
    assert raised.value.hint == "run CREATE TABLE trips ... first"
    other.execute(table)
    assert "is up to date" in refresh(other)
    check_answers(other, lake)


def check_answers(session: sqlwin.Session, lake: Lake, tail: str = "SliceScan") -> None:
    """Check that windows come from slices and equal windows over all rows."""
    assert tail in session.explain("SELECT * FROM m")
    rows = lake.rows()
    expected = duckdb.sql(WINDOWS).fetchall()
    assert len(rows)
    query = "SELECT city, window_end, n, s, low FROM m"
    result = [tuple(row.values()) for row in session.sql(query).toArrow().to_pylist()]
    assert sorted(map(repr, result)) == sorted(map(repr, expected))
