"""Windows over rows in Parquet files of an object store, the same for all stores."""

from __future__ import annotations

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
