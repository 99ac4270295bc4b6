"""Slices of materialized tables contain each row of the existing files once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import sqlwin
from runtime.errors import CatalogError, SqlwinError
from runtime.materialized.store import open_slices
from tests.end_to_end.materialized.base import QUERY, TABLE, Base, answers, refresh, stored_slices
from tests.marks import among

PROGRAM = Path(__file__).with_name("killed.py")
ALL = "SELECT * FROM m"
POINTS = ["listed", "built", "manifest", "committed", "compacted", "replaced"]


def _create(session: sqlwin.Session, base: Base, path: Path, clauses: str = "") -> None:
    session.execute(TABLE.format(base.root))
    session.execute(f"CREATE MATERIALIZED TABLE m {clauses} WITH ('path' = '{path}') AS {QUERY}")


@pytest.mark.long
def test_files_that_came_changed_and_went_are_in_once(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    base = Base(tmp_path / "in")
    base.write("early", 300, 0, 600)
    base.write("noon", 300, 500, 900)
    base.write("late", 300, 800, 1400)
    _create(fresh_session, base, tmp_path / "m")
    assert stored_slices(tmp_path / "m") == base.slices()
    base.write("new", 100)
    assert answers(fresh_session, ALL) == answers(fresh_session, ALL, "false")
    base.write("noon", 200, 600, 700)
    base.remove("late")
    assert "1 new file, 1 changed file, 1 lost file" in refresh(fresh_session)
    assert stored_slices(tmp_path / "m") == base.slices()
    assert "SliceScan" in str(fresh_session.execute("EXPLAIN SELECT * FROM m")[0].text)
    assert answers(fresh_session, ALL) == answers(fresh_session, ALL, "false")


@pytest.mark.slow
def test_a_late_file_adds_partials_without_rewriting(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    base = Base(tmp_path / "in")
    base.write("day", 2_000)
    _create(fresh_session, base, tmp_path / "m")
    before = open_slices(str(tmp_path / "m")).files
    base.write("late", 10, 60, 65)
    assert "1 new file; 10 rows read" in refresh(fresh_session)
    after = open_slices(str(tmp_path / "m")).files
    assert set(before) < set(after)
    assert sum(file.n_rows for file in set(after) - set(before)) <= 4
    assert "is up to date, version 2" in refresh(fresh_session)


@pytest.mark.slow
@pytest.mark.parametrize("clauses", ["", "PARTITIONED BY (city)"])
def test_slices_equal_the_rows_after_any_file_changes(
    fresh_session: sqlwin.Session, tmp_path: Path, clauses: str
) -> None:
    draw = random.Random(11)
    base = Base(tmp_path / "in", 3)
    base.write("f0", 500)
    _create(fresh_session, base, tmp_path / "m", clauses)
    existing = {"f0"}
    for number in range(1, 15):
        for _ in range(draw.randrange(3)):
            first = draw.randrange(0, 1300)
            what = draw.choice(["new", "new", "change", "remove", "empty"])
            if what == "remove" and len(existing) > 1:
                base.remove(removed := draw.choice(sorted(existing)))
                existing.remove(removed)
                continue
            name = (
                draw.choice(sorted(existing)) if what == "change" else f"f{number}{draw.random()}"
            )
            base.write(name, 0 if what == "empty" else 200, first, first + draw.randrange(1, 100))
            existing.add(name)
        refresh(fresh_session)
        assert stored_slices(tmp_path / "m") == base.slices()


@pytest.mark.slow
def test_two_refreshes_at_once_count_each_file_once(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    base = Base(tmp_path / "in")
    base.write("day", 500)
    _create(fresh_session, base, tmp_path / "m")
    other = sqlwin.connect(fresh_session.spark.newSession())
    other.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path / 'm'}')")
    for number in range(4):
        base.write(f"new{number}", 100)
        base.write("day", 400 + number, 0, 300)
        failed: list[Exception] = []

        def run(session: sqlwin.Session, failed: list[Exception] = failed) -> None:
            try:
                refresh(session)
            except SqlwinError as error:
                failed.append(error)

        threads = [threading.Thread(target=run, args=(item,)) for item in (fresh_session, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert stored_slices(tmp_path / "m") == base.slices()


@pytest.mark.long
@pytest.mark.parametrize("point", among(POINTS, slow=[p for p in POINTS if p != "manifest"]))
def test_a_killed_refresh_neither_loses_nor_duplicates_rows(
    fresh_session: sqlwin.Session, tmp_path: Path, point: str
) -> None:
    base = Base(tmp_path / "in")
    base.write("day", 300)
    _create(fresh_session, base, tmp_path / "m")
    if point in ("compacted", "replaced"):
        for number in range(6):
            base.write(f"part{number}", 300)
            refresh(fresh_session)
    before = base.slices()
    base.write("new", 300)
    if point in ("listed", "built", "manifest"):
        base.write("day", 200, 300, 500)
    program = [sys.executable, str(PROGRAM), str(tmp_path), point]
    killed = subprocess.run(program, timeout=300, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    is_in = point in ("committed", "compacted", "replaced")
    assert stored_slices(tmp_path / "m") == (base.slices() if is_in else before)
    assert answers(fresh_session, ALL) == answers(fresh_session, ALL, "false")
    message = refresh(fresh_session)
    assert ("is up to date" in message) == is_in
    assert stored_slices(tmp_path / "m") == base.slices()


@pytest.mark.slow
def test_another_session_opens_a_table_and_its_base_tables(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    base = Base(tmp_path / "in")
    base.write("day", 500)
    fresh_session.execute(f"SET 'sqlwin.materialized.dir' = '{tmp_path / 'all'}'")
    fresh_session.execute(TABLE.format(base.root))
    fresh_session.execute("CREATE VIEW rides AS SELECT ts, city, fare FROM trips WHERE fare > 0")
    fresh_session.execute(f"CREATE MATERIALIZED TABLE m AS {QUERY.replace('trips', 'rides')}")
    expected = fresh_session.sql("SELECT * FROM m ORDER BY city, window_end").toArrow()
    other = sqlwin.connect(fresh_session.spark.newSession())
    other.execute(f"SET 'sqlwin.materialized.dir' = '{tmp_path / 'all'}'")
    assert other.sql("SELECT * FROM m ORDER BY city, window_end").toArrow() == expected
    (shown,) = other.execute("SHOW MATERIALIZED TABLES")[0].table.to_pylist()
    assert (shown["materialized table"], shown["base table"], shown["slices"]) == (
        "m",
        "trips",
        "10 min",
    )
    base.write("more", 100)
    assert "1 new file" in refresh(other)
    # the first one sees the other's version
    assert "is up to date" in refresh(fresh_session)
    third = sqlwin.connect(fresh_session.spark.newSession())
    (tmp_path / "other").mkdir()
    third.execute(
        "CREATE TABLE trips (ts TIMESTAMP(3), city STRING, fare INT) WITH ('connector' = "
        f"'filesystem', 'path' = '{tmp_path / 'other'}', 'format' = 'parquet')"
    )
    with pytest.raises(CatalogError, match="`trips` in this session differs"):
        third.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path / 'all' / 'm'}')")


@pytest.mark.slow
def test_a_table_whose_query_fails_does_not_exist(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    base = Base(tmp_path / "in")
    base.write("day", 50)
    fresh_session.execute(TABLE.format(base.root))
    query = QUERY.replace("SUM(fare)", "SUM(1 / (fare - fare))")
    with pytest.raises(SqlwinError):
        fresh_session.execute(
            f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path / 'm'}') AS {query}"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert not fresh_session.execute("SHOW MATERIALIZED TABLES")[0].table.num_rows


@pytest.mark.slow
def test_a_base_table_with_other_columns_is_refused(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    base = Base(tmp_path / "in")
    base.write("day", 50)
    _create(fresh_session, base, tmp_path / "m")
    fresh_session.execute("DROP TABLE trips")
    fresh_session.execute(
        "CREATE TABLE trips (ts TIMESTAMP(3), city STRING, fare BIGINT) WITH ('connector' = "
        f"'filesystem', 'path' = '{base.root}', 'format' = 'parquet')"
    )
    with pytest.raises(CatalogError, match="`trips` in this session differs"):
        refresh(fresh_session)
