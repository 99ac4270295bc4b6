"""Windows over rows in Parquet files of an object store, the same for all stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import sqlwin

COLUMNS = "(k BIGINT, ts TIMESTAMP(6), v BIGINT, WATERMARK FOR ts AS ts)"
BY_MINUTE = """
    SELECT k, window_end AS e, SUM(v) AS total FROM TABLE(HOP({}, DESCRIPTOR(ts),
      INTERVAL '1' MINUTE, INTERVAL '3' MINUTES)) GROUP BY k, window_start, window_end
"""


def minutes(first: int, n: int) -> pa.Table:
    """Return twenty rows of three keys in every minute."""
    seconds = [60 * (first + m) + s for m in range(n) for s in range(0, 60, 3)]
    return pa.table(
        {
            "k": pa.array([i % 3 for i in range(len(seconds))], pa.int64()),
            "ts": pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us")),
            "v": pa.array(range(len(seconds)), pa.int64()),
        }
    )


def table(name: str, path: object, options: str = "") -> str:
    return f"""CREATE TABLE {name} {COLUMNS} WITH
        ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}' {options});"""


def rows(session: sqlwin.Session, query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in session.execute(query)[-1].rows)


def check_resumed_stream(
    session: sqlwin.Session, uri: str, put: Callable[[str, pa.Table], object], directory: Path
) -> None:
    """Run a stream over the files of a store, and again with a new one: the rows of the batch.

    Args:
        session: Session that knows the store.
        uri: Directory of the files.
        put: Function that writes a file there, given its name.
        directory: Local directory for results and checkpoints.
    """
    session.execute(f"""
        {table("i", uri, ", 'max-files-per-trigger' = '1'")}
        CREATE TABLE o (k BIGINT, e TIMESTAMP(6), total BIGINT) WITH
          ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{directory}/out');
        SET 'execution.runtime-mode' = 'streaming';
        SET 'execution.checkpointing.dir' = '{directory}/checkpoints';
        SET 'sqlwin.end-of-input' = 'hold-windows'
    """)
    insert = f"INSERT INTO o {BY_MINUTE.format('TABLE i')}"
    for number in range(3):
        put(f"{number}.parquet", minutes(number * 5, 5))
        if number == 2:
            session.execute("RESET 'sqlwin.end-of-input'")
        if number > 0:  # the first run reads two files
            session.execute(insert)
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    expected = rows(session, BY_MINUTE.format("TABLE i"))
    assert rows(session, "SELECT * FROM o") == expected
    assert len(expected) > 30
