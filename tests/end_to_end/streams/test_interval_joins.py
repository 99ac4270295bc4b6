"""Joins of two streams within an interval on Spark: the rows of batch, once each."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import sqlwin
from tests.end_to_end.stream_files import write_keys
from tests.marks import among

pytestmark = pytest.mark.long

ON = "a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' SECOND"
QUERIES = {
    "inner": f"SELECT a.k, a.ts AS x, b.ts AS y FROM one AS a JOIN other AS b ON {ON}",
    "left": f"SELECT * FROM one AS a LEFT JOIN other AS b ON {ON}",
    "using": """SELECT k, one.ts AS x, other.ts AS y FROM one JOIN other USING (k)
        WHERE other.ts BETWEEN one.ts AND one.ts + INTERVAL '10' SECOND""",
    "cross": f"SELECT a.ts AS x, b.ts AS y FROM one AS a CROSS JOIN other AS b WHERE {ON}",
    "views": f"SELECT a.k, b.ts AS y FROM early AS a JOIN other AS b ON {ON}",
}


@pytest.fixture(scope="module")
def joined(session: sqlwin.Session, tmp_path_factory: pytest.TempPathFactory) -> sqlwin.Session:
    directory = tmp_path_factory.mktemp("interval")
    rows = [(s, k) for s in range(0, 60, 3) for k in "abc"]
    for name, shift in (("one", 0), ("other", 7)):
        for part in range(0, len(rows), 15):
            write_keys(directory / name, *((s + shift, k) for s, k in rows[part : part + 15]))
        session.execute(
            f"""CREATE OR REPLACE TABLE {name} (ts TIMESTAMP(6), k STRING,
            WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'filesystem',
            'path' = '{directory / name}', 'format' = 'parquet', 'max-files-per-trigger' = '1')"""
        )
    session.execute("CREATE OR REPLACE VIEW early AS SELECT * FROM one WHERE second(ts) < 30")
    return session


@pytest.mark.parametrize("name", among(QUERIES, slow=["inner", "using", "cross"]))
def test_a_stream_gives_the_rows_of_sparks_join(joined: sqlwin.Session, name: str) -> None:
    (batch,) = joined.execute(QUERIES[name])
    joined.execute("SET 'execution.runtime-mode' = 'streaming'")
    try:
        explained = joined.explain(QUERIES[name])
        (stream,) = joined.execute(QUERIES[name])
        rows = [tuple(row) for row in stream.rows]
    finally:
        joined.execute("RESET 'execution.runtime-mode'")
    assert "WindowJoin(" in explained and "HOP(" in explained
    expected = [tuple(row) for row in batch.rows]

    def key(row: tuple[object, ...]) -> tuple[str, ...]:
        return tuple(map(str, row))

    assert len(rows) > 20 and sorted(rows, key=key) == sorted(expected, key=key)


def test_the_state_is_empty_and_late_rows_are_counted(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_keys(tmp_path / "one", (1, "a"), (100, "a"))
    write_keys(tmp_path / "other", (5, "a"), (100, "a"))
    for name in ("one", "other"):
        fresh_session.execute(
            f"""CREATE TABLE {name} (ts TIMESTAMP(6), k STRING, WATERMARK FOR ts AS ts) WITH (
            'connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'parquet',
            'max-files-per-trigger' = '1')"""
        )
    insert = f"INSERT INTO pairs SELECT a.ts, b.ts FROM one AS a LEFT JOIN other AS b ON {ON}"
    fresh_session.execute(
        "CREATE TABLE pairs (x TIMESTAMP(6), y TIMESTAMP(6)) WITH ('connector' = 'memory');"
        "SET 'execution.runtime-mode' = 'streaming'; SET 'sqlwin.end-of-input' = 'hold-windows';"
        f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';"
    )

    def pairs() -> list[tuple[int | None, ...]]:
        start = dt.datetime(1970, 1, 1)  # noqa: DTZ001
        rows = fresh_session.execute("SELECT * FROM pairs")[0].rows
        times = [[None if t is None else int((t - start).total_seconds()) for t in r] for r in rows]
        return sorted(map(tuple, times), key=str)

    fresh_session.execute(insert)
    assert pairs() == [(1, 5)]
    # one row is behind all windows that are open, and the stream continues from its state
    write_keys(tmp_path / "one", (2, "a"), (200, "a"))
    write_keys(tmp_path / "other", (200, "b"))
    (result,) = fresh_session.execute(insert)
    assert pairs() == [(1, 5), (100, 100)]
    assert sum(o.n_late for o in result.stream.status().operators) == 1
    fresh_session.execute("SET 'sqlwin.end-of-input' = 'close-windows'")
    (result,) = fresh_session.execute(insert)
    assert pairs() == [(1, 5), (100, 100), (200, None)]
    assert sum(o.n_rows for o in result.stream.status().operators) == 0
