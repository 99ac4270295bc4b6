"""State of many keys, whose tables the workers of an executor share as files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sqlwin
from tests.end_to_end.stream_files import write_next

N_KEYS = 80_000
MINUTE_US = 60_000_000


def write_minutes(directory: Path, first: int, last: int) -> None:
    """Write a file, for one micro-batch, for each minute, with a row for most keys."""
    for minute in range(first, last):
        random = np.random.default_rng(minute)
        keys = random.permutation(N_KEYS)[: N_KEYS * 9 // 10]
        times = minute * MINUTE_US + random.integers(0, MINUTE_US, len(keys))
        columns = {
            "ts": pa.array(times, pa.timestamp("us")),
            "k": keys,
            "v": random.integers(0, 1000, len(keys)),
        }
        write_next(directory, columns)


def n_shared(session: sqlwin.Session) -> int:
    """Return the number of state tables stored as shared files."""

    def count(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Path(os.environ["SPARK_LOCAL_DIRS"].split(",")[0]) / "sqlwin-state"
        n_files = len(os.listdir(directory)) if directory.exists() else 0
        yield pa.RecordBatch.from_pydict({"n": [n_files]})

    rows = session.spark.range(1).coalesce(1).mapInArrow(count, "n bigint").collect()
    return int(rows[0].n)


@pytest.mark.long
def test_windows_of_many_keys_equal_the_batch_after_a_restart(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    hop = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '6' MINUTES)"
    query = f"""SELECT k, window_end, SUM(v) AS s, COUNT(*) AS n FROM TABLE({hop})
                GROUP BY k, window_start, window_end"""
    fresh_session.execute(f"""
        CREATE TABLE t (ts TIMESTAMP(6), k BIGINT, v BIGINT, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet',
              'max-files-per-trigger' = '1');
        CREATE TABLE totals (k BIGINT, window_end TIMESTAMP(3), s BIGINT, n BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'parquet');
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
    """)
    before = n_shared(fresh_session)
    for first, last, end in ((0, 8, "hold-windows"), (8, 11, "close-windows")):
        write_minutes(tmp_path / "in", first, last)
        fresh_session.execute(f"""
            SET 'execution.runtime-mode' = 'streaming';
            SET 'sqlwin.end-of-input' = '{end}';
            INSERT INTO totals {query}
        """)
        if end == "hold-windows":
            assert n_shared(fresh_session) > before
    digest = """SELECT window_end, COUNT(*), SUM(n), SUM(s), SUM(k * s % 1009), SUM(k * n % 1013)
                FROM ({}) GROUP BY window_end ORDER BY window_end"""
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    result = fresh_session.execute(digest.format("SELECT * FROM totals"))[-1].rows
    expected = fresh_session.execute(digest.format(query))[-1].rows
    assert len(expected) == 16
    assert list(result) == list(expected)
