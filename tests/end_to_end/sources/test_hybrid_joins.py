"""Joins of hybrid tables on Spark, against brute force, also stopped before and after the handover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import sqlwin
from tests.end_to_end.sources.hybrid_rows import LAST, START, Row, declare, table_of, write
from tests.observing import wait_until


def windows(name: str) -> str:
    window = f"TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    return (
        f"SELECT window_start, window_end, k, COUNT(*) AS n FROM {window} "
        "GROUP BY window_start, window_end, k"
    )


COUNTS = f"""SELECT a.window_end, a.k, a.n AS x, b.n AS y
    FROM ({windows("a")}) AS a JOIN ({windows("b")}) AS b
    ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k"""
ROWS = """SELECT a.ts, a.k, a.id AS x, b.id AS y
    FROM (SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECOND))) AS a
    LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '2' SECOND))) AS b
    ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k"""
INTERVAL = """SELECT a.ts, a.k, a.id AS x, b.id AS y FROM a LEFT JOIN b
    ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '3' SECOND"""
VERSIONS = """SELECT a.ts, a.k, a.id AS x, b.id AS y
    FROM a LEFT JOIN b FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k"""


def joined_counts(a: list[Row], b: list[Row]) -> Iterator[tuple]:
    left, right = (Counter((row.ms // 10_000, row.k) for row in rows) for rows in (a, b))
    for window, k in left.keys() & right.keys():
        end = (window + 1) * 10_000
        yield end, k, left[window, k], right[window, k]


def joined_rows(a: list[Row], b: list[Row]) -> Iterator[tuple]:
    for row in a:
        ids = [o.id for o in b if o.ms // 2_000 == row.ms // 2_000 and o.k == row.k]
        yield from ((row.ms, row.k, row.id, id_) for id_ in ids or [None])


def joined_in_interval(a: list[Row], b: list[Row]) -> Iterator[tuple]:
    for row in a:
        ids = [o.id for o in b if row.ms <= o.ms <= row.ms + 3_000 and o.k == row.k]
        yield from ((row.ms, row.k, row.id, id_) for id_ in ids or [None])


def joined_versions(a: list[Row], b: list[Row]) -> Iterator[tuple]:
    for row in a:
        versions = [(o.ms, o.id) for o in b if o.ms <= row.ms and o.k == row.k]
        yield row.ms, row.k, row.id, max(versions)[1] if versions else None


JOINS = {
    "counts": (COUNTS, joined_counts),
    "rows": (ROWS, joined_rows),
    "interval": (INTERVAL, joined_in_interval),
    "versions": (VERSIONS, joined_versions),
}


SLOW = pytest.mark.slow


def counted(rows: list[tuple]) -> Counter:
    """Return result rows with their times in milliseconds after START."""
    return Counter((round((at - START).total_seconds() * 1_000), *rest) for at, *rest in rows)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in ("counts", "versions") else SLOW)
        for name in JOINS
    ],
)
def test_joins_of_hybrid_tables(name: str, fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    query, by_definition = JOINS[name]
    random = Random(name)
    tables = {}
    for table in "ab":
        tables[table] = rows = table_of(tmp_path, table, random)
        write(tmp_path / table / "then" / "0.parquet", [row for f in rows.then for row in f])
        declare(fresh_session, tmp_path, table, is_live=False)
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    (result,) = fresh_session.execute(query)
    expected = Counter(by_definition(tables["a"].rows, tables["b"].rows))
    assert counted([tuple(row) for row in result.rows]) == expected


@SLOW
def test_a_hybrid_table_is_joined_with_another_stream(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    random = Random(5)
    a, b = (table_of(tmp_path, table, random) for table in "ab")
    write(tmp_path / "a" / "then" / "0.parquet", [row for f in a.then for row in f])
    write(tmp_path / "b" / "then" / "0.parquet", b.rows)
    declare(fresh_session, tmp_path, "a", is_live=False)
    declare(fresh_session, tmp_path, "b", is_live=False)
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    (result,) = fresh_session.execute(ROWS.replace("TABLE b,", "TABLE b_then,"))
    expected = Counter(joined_rows(a.rows, b.rows))
    assert counted([tuple(row) for row in result.rows]) == expected


@pytest.mark.long
def test_a_join_is_stopped_before_and_after_the_handover(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    query, by_definition = JOINS["counts"]
    random = Random(7)
    tables = {table: table_of(tmp_path, table, random) for table in "ab"}
    for table in tables:
        declare(fresh_session, tmp_path, table, is_live=True)
    fresh_session.execute(f"""
        CREATE TABLE kept (at TIMESTAMP(3), k INT, x BIGINT, y BIGINT) WITH (
          'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/kept');
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoint'""")
    commits = tmp_path / "checkpoint" / "kept" / "spark" / "commits"

    def n_commits() -> int:
        return sum(path.name.isdigit() for path in commits.glob("*"))

    def run_until(n: int) -> None:
        fresh_session.execute(f"INSERT INTO kept {query}")
        (stream,) = (s for s in fresh_session.streams.all() if s.is_running)
        wait_until(lambda: n_commits() >= n or not stream.is_running, seconds=120)
        assert stream.is_running, stream.failure()
        stream.stop()

    run_until(2)
    first, *_ = (tmp_path / "checkpoint" / "kept" / "listed-files").glob("0/history.json")
    n_ranges = first.read_text().count("n_bytes")
    # before the handover, in the micro-batch after it, and with rows of later files
    run_until(n_ranges - 1)
    for table, rows in tables.items():
        write(tmp_path / table / "then" / "0.parquet", rows.then[0])
    run_until(n_ranges)
    run_until(n_ranges + 1)
    for table, rows in tables.items():
        write(tmp_path / table / "then" / "1.parquet", [*rows.then[1], Row(-1, LAST, 9)])
    run_until(n_commits() + 1)
    fresh_session.execute(f"INSERT INTO kept {query}")
    expected = Counter(by_definition(tables["a"].rows, tables["b"].rows))

    def results() -> Counter:
        (kept,) = fresh_session.execute("SELECT * FROM kept")
        return counted([tuple(row) for row in kept.rows if row[1] != 9])

    wait_until(lambda: results().total() >= expected.total(), seconds=120)
    assert results() == expected
