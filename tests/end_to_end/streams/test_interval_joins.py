"""Joins of two streams within an interval on Spark: the rows of batch, once each."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import sqlwin
from tests.end_to_end.stream_files import write_keys

pytestmark = pytest.mark.long

ON = "a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' SECOND"


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
