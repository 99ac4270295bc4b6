"""Slices over tables of Spark's catalog follow the files that Spark reads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.errors import CatalogError
from tests.end_to_end.materialized.base import (
    QUERY,
    START_US,
    Base,
    answers,
    random_rows,
    refresh,
    slices_of,
    stored_slices,
)
from tests.end_to_end.materialized.test_lakes import WINDOWS

pytestmark = pytest.mark.long
COLUMNS = "ts TIMESTAMP_NTZ, city STRING, fare INT"


@pytest.fixture
def spark_session(fresh_session: sqlwin.Session, tmp_path: Path) -> Iterator[sqlwin.Session]:
    """Provide a session with a temporary database `shop` of Spark's."""
    fresh_session.spark.sql(f"CREATE DATABASE shop LOCATION '{tmp_path}/shop'")
    yield fresh_session
    fresh_session.spark.sql("DROP DATABASE shop CASCADE")


def create(session: sqlwin.Session, path: Path, name: str) -> None:
    query = QUERY.replace("TABLE trips", f"TABLE {name}")
    session.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{path}') AS {query}")


def test_an_external_table_is_followed_under_each_of_its_names(
    spark_session: sqlwin.Session, tmp_path: Path
) -> None:
    session = spark_session
    base = Base(tmp_path / "in")
    base.write("early", 300, 0, 600)
    base.write("late", 300, 500, 1440)
    session.spark.sql(f"CREATE TABLE shop.trips ({COLUMNS}) USING parquet LOCATION '{tmp_path}/in'")
    create(session, tmp_path / "m", "spark_catalog.shop.trips")
    assert stored_slices(tmp_path / "m") == base.slices()
    base.write("new", 100)
    query = QUERY.replace("TABLE trips", "TABLE shop.trips")
    explained = session.explain(query)
    assert "SliceScan(table=[m]" in explained and "tail=[1 file]" in explained
    assert answers(session, query) == answers(session, query, "false")
    assert answers(session, "SELECT * FROM m") == answers(session, query, "false")
    base.write("late", 200, 600, 700)
    base.remove("early")
    assert "1 new file, 1 changed file, 1 lost file" in refresh(session)
    assert stored_slices(tmp_path / "m") == base.slices()
    assert "is up to date" in refresh(session)
    assert answers(session, "SELECT * FROM m") == answers(session, query, "false")
    rows = pa.concat_tables(map(pq.read_table, sorted(base.root.glob("*.parquet"))))
    assert len(rows)
    result = session.sql("SELECT city, window_end, n, s, low FROM m").collect()
    expected = duckdb.sql(WINDOWS).fetchall()
    assert sorted(map(repr, map(tuple, result))) == sorted(map(repr, expected))

    # another session finds it by path; a table of that name in another database is a different one
    other = sqlwin.connect(session.spark.newSession())
    other.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path}/m')")
    assert "is up to date" in refresh(other)
    session.spark.sql("DROP TABLE shop.trips")
    with pytest.raises(CatalogError, match="Spark's catalog has no such table"):
        other.sql("SELECT * FROM m").collect()
    session.spark.sql(f"CREATE TABLE shop.trips ({COLUMNS}) USING parquet LOCATION '{tmp_path}/x'")
    with pytest.raises(CatalogError, match=r"`spark_catalog\.shop\.trips` in this session differs"):
        other.sql("SELECT * FROM m").collect()


def test_of_a_partitioned_table_the_partitions_are_read_that_spark_reads(
    spark_session: sqlwin.Session, tmp_path: Path
) -> None:
    session, spark = spark_session, spark_session.spark
    draw = random.Random(8)
    spark.sql(
        f"CREATE TABLE shop.trips ({COLUMNS}, day INT, shop STRING) USING parquet "
        "PARTITIONED BY (day, shop)"
    )

    def add(n_rows: int, day: int, shop: str) -> None:
        rows = random_rows(draw, n_rows)
        spark.createDataFrame(rows, f"{COLUMNS}").createOrReplaceTempView("added")
        spark.sql(
            f"INSERT INTO shop.trips PARTITION (day = {day}, shop = '{shop}') "
            "SELECT /*+ COALESCE(1) */ * FROM added"
        )
        spark.catalog.dropTempView("added")

    def check() -> None:
        rows = spark.table("shop.trips").select("ts", "city", "fare").toArrow()
        assert stored_slices(tmp_path / "m") == slices_of(rows)

    add(100, 1, "a b")
    add(100, 2, "07")
    create(session, tmp_path / "m", "shop.trips")
    check()
    add(50, 2, "07")
    add(50, 3, "x/y")
    assert "2 new files; 100 rows read" in refresh(session)
    check()
    # a directory that is not a partition in the catalog does not belong to the table
    (location,) = (tmp_path / "shop").glob("trips")
    (location / "day=9" / "shop=a").mkdir(parents=True)
    pq.write_table(random_rows(draw, 10), location / "day=9" / "shop=a" / "f.parquet")
    assert "is up to date" in refresh(session)
    spark.sql("ALTER TABLE shop.trips ADD PARTITION (day = 9, shop = 'a')")
    assert "1 new file; 10 rows read" in refresh(session)
    check()
    spark.sql("ALTER TABLE shop.trips DROP PARTITION (day = 1, shop = 'a b')")
    assert "1 lost file" in refresh(session)
    check()
    # partition columns as keys and conditions, with types that directory names do not determine
    query = (
        "SELECT shop, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE shop.trips, "
        "DESCRIPTOR(ts), INTERVAL '1' HOUR)) WHERE day < 9 GROUP BY shop, window_start, window_end"
    )
    session.execute(f"CREATE MATERIALIZED TABLE by_shop WITH ('path' = '{tmp_path}/by') AS {query}")
    hours = spark.sql(
        "SELECT shop, ts, 1 AS n FROM shop.trips WHERE day < 9 AND ts IS NOT NULL"
    ).toArrow()
    result = session.sql("SELECT shop, SUM(n) AS n FROM by_shop GROUP BY shop").collect()
    expected = hours.group_by("shop").aggregate([("n", "sum")]).to_pylist()
    assert sorted(map(tuple, result)) == sorted((r["shop"], r["n_sum"]) for r in expected)
    assert {shop for shop, _ in result} == {"07", "x/y"}

    # a partition at another location
    spark.sql(f"ALTER TABLE shop.trips ADD PARTITION (day = 5, shop = 'e') LOCATION '{tmp_path}/e'")
    (tmp_path / "e").mkdir(exist_ok=True)
    pq.write_table(random_rows(draw, 10), tmp_path / "e" / "f.parquet")
    with pytest.raises(sqlwin.SqlwinError, match="the partition of file"):
        refresh(session)


def test_rows_of_a_table_of_sparks_can_be_inserted(
    spark_session: sqlwin.Session, tmp_path: Path
) -> None:
    base = Base(tmp_path / "in")
    base.write("day", 200)
    spark_session.spark.sql(
        f"CREATE TABLE shop.trips ({COLUMNS}) USING parquet LOCATION '{tmp_path}/in'"
    )
    query = QUERY.replace("TABLE trips", "TABLE shop.trips")
    spark_session.execute(
        f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path}/m') "
        f"REFRESH_MODE = CONTINUOUS AS {query}"
    )
    spark_session.execute(f"INSERT INTO m {query}")
    assert stored_slices(tmp_path / "m") == base.slices()
    assert len(spark_session.sql("SELECT * FROM m").collect()) > 0


def test_tables_without_tracked_files_are_refused_with_a_remedy(
    spark_session: sqlwin.Session, tmp_path: Path
) -> None:
    spark = spark_session.spark
    rows = f"SELECT timestamp_micros({START_US}) AS ts, 'a' AS city, 1 AS fare"
    spark.sql(f"CREATE TABLE shop.texts USING csv AS {rows}")
    spark.sql("CREATE VIEW shop.seen AS SELECT * FROM shop.texts")
    spark.sql(rows).createOrReplaceTempView("shown")
    for name, why, hint in (
        ("shop.seen", "`shop.seen` is a Spark view", "use the table that it reads"),
        ("shown", "`shown` is a Spark view", "use the table that it reads"),
        ("shop.texts", "`shop.texts` is a table of format CSV", "store it as Parquet"),
        ("shop.none", "shop.none", ""),
    ):
        with pytest.raises(CatalogError if hint else sqlwin.SqlwinError) as raised:
            create(spark_session, tmp_path / "m", name)
        assert why in str(raised.value) and hint in str(raised.value.hint)
    assert not (tmp_path / "m").exists()
    spark.catalog.dropTempView("shown")
