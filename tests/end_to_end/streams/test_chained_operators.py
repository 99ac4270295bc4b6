"""Operators over results that change, stopped between micro-batches and started again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sqlwin
from tests.end_to_end.stream_files import write_next

SECOND_US = 1_000_000
LAST = "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC, v) = 1"
GROUPS = f"SELECT v % 5 AS g, COUNT(*) AS n, SUM(v) AS s FROM ({LAST}) GROUP BY v % 5"
WINDOWS = """SELECT k, window_time AS wt, COUNT(*) AS n FROM
    TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
    GROUP BY k, window_start, window_end, window_time"""
# By target table
TABLES = {
    "ranks": f"SELECT g, n, s FROM ({GROUPS}) QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC, g) <= 3",
    "windows": f"""SELECT k % 2 AS g, COUNT(*) AS n, SUM(n) AS s FROM
        TABLE(TUMBLE(({WINDOWS}), DESCRIPTOR(wt), INTERVAL '20' SECONDS))
        GROUP BY k % 2, window_start, window_end""",
}


def write_file(directory: Path, number: int) -> None:
    """Write the rows of ten seconds, for one micro-batch."""
    random = np.random.default_rng(number)
    times = number * 10 * SECOND_US + random.integers(0, 10 * SECOND_US, 60)
    columns = {"ts": times.astype("datetime64[us]"), "k": random.integers(0, 20, 60)}
    write_next(directory, columns | {"v": random.integers(0, 10, 60)})


@pytest.mark.long
def test_chained_operators_give_the_rows_of_batch_after_a_restart(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    targets = "".join(
        f"CREATE TABLE {name} (op STRING, g BIGINT, n BIGINT, s BIGINT) WITH ("
        f"'connector' = 'filesystem', 'path' = '{tmp_path}/{name}', 'format' = 'parquet');"
        for name in TABLES
    )
    fresh_session.execute(f"""
        CREATE TABLE t (ts TIMESTAMP(6), k BIGINT, v BIGINT,
          WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet',
              'max-files-per-trigger' = '1');
        {targets}
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'table.exec.emit.early-fire.enabled' = 'true';
        SET 'table.exec.emit.early-fire.delay' = '0 s';
    """)
    inserts = " ".join(
        f"INSERT INTO {name} SELECT * FROM TO_CHANGELOG(input => ({table}));"
        for name, table in TABLES.items()
    )
    for first, end in ((0, "hold-windows"), (3, "close-windows")):
        for number in range(first, first + 3):
            write_file(tmp_path / "in", number)
        fresh_session.execute(f"""
            SET 'execution.runtime-mode' = 'streaming';
            SET 'sqlwin.end-of-input' = '{end}';
            EXECUTE STATEMENT SET BEGIN {inserts} END;
        """)
        fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
        for name, table in TABLES.items():
            changes = fresh_session.sql(f"SELECT * FROM {name}").collect()
            assert {row.op for row in changes} & {"DELETE", "UPDATE_BEFORE"}
            expected = fresh_session.sql(table).collect()
            assert described(changes) == Counter(map(tuple, expected)), (name, end)


def described(changes: Iterable[Any]) -> Counter[tuple[int, ...]]:
    """Return how often the table that changes describe has each row."""
    table: Counter[tuple[int, ...]] = Counter()
    for op, *row in changes:
        table[tuple(row)] += 1 if op in ("INSERT", "UPDATE_AFTER") else -1
    return +table
