"""INTERVAL DAY TO SECOND in window aggregations, compared with a batch in Spark."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.end_to_end.streams.test_stream_sql import BATCH, STREAMING, rows
from tests.marks import among

SECOND = 1_000_000
START = 1_767_225_600 * SECOND
# Seconds from `a` to `b` for rows a second apart: large, negative, equal and missing
LENGTHS = [5, -3, 5, None, 0, 86_400 * 400, -86_400, 7, 5, 90, 1, 2]

AGGREGATES = """
    MAX(b - a) AS longest, MIN(b - a) AS shortest, SUM(b - a) AS total, AVG(b - a) AS mean,
    FIRST_VALUE(b - a) AS one, LAST_VALUE(b - a) AS other, COUNT(b - a) AS n,
    COUNT(DISTINCT b - a) AS n_distinct, SUM(DISTINCT b - a) AS distinct_total,
    AVG(DISTINCT b - a) AS distinct_mean, COUNT(DISTINCT b - a, k) AS n_pairs,
    MIN_BY(b - a, v) AS least, MAX_BY(v, b - a) AS most, APPROX_COUNT_DISTINCT(b - a) AS estimate,
    SUM(b - a) FILTER (WHERE v > 4) AS some, MAX(CAST(b AS DATE) - CAST(a AS DATE)) AS days"""
TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '6' SECONDS))"
QUERIES = {
    "values": f"SELECT k, window_end, {AGGREGATES} FROM {TUMBLE} GROUP BY k, window_start, window_end",
    "keys": f"""SELECT b - a AS length, window_end, COUNT(*) AS n, SUM(b - a) AS total FROM {TUMBLE}
        GROUP BY b - a, window_start, window_end""",
    "session": """SELECT b - a AS length, COUNT(*) AS n, MAX(b - a) AS m, window_end
        FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECONDS))
        GROUP BY k, b - a, window_start, window_end""",
    "rows": """SELECT length, v, window_end FROM (SELECT b - a AS length, v, ts, window_end, ROW_NUMBER()
          OVER (PARTITION BY window_start, window_end ORDER BY v DESC) AS rn
        FROM (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '6' SECONDS)))) WHERE rn <= 2""",
    "again": f"""SELECT window_end, MAX(total) AS most, SUM(n) AS n FROM (
        SELECT k, window_start, window_end, SUM(b - a) AS total, COUNT(*) AS n FROM {TUMBLE}
        GROUP BY k, window_start, window_end) GROUP BY window_start, window_end""",
}  # fmt: skip


@pytest.fixture
def db(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    starts = [START + n * SECOND for n in range(len(LENGTHS))]
    ends = [
        None if length is None else start + length * SECOND + 1
        for start, length in zip(starts, LENGTHS, strict=True)
    ]
    time = pa.timestamp("us")
    table = pa.table(
        {
            "ts": pa.array(starts, time),
            "a": pa.array(starts, time),
            "b": pa.array(ends, time),
            "k": [n % 2 for n in range(len(LENGTHS))],
            "v": pa.array(range(len(LENGTHS)), pa.int64()),
        }
    )
    (tmp_path / "in").mkdir()
    for number in range(2):
        file = tmp_path / f"in/{number}.parquet"
        pq.write_table(table.slice(number * 5, 5 + 9 * number), file)
        # a stream reads files in order of their modification times
        os.utime(file, (START / SECOND + number,) * 2)
    fresh_session.execute(f"""
        CREATE TABLE t (ts TIMESTAMP(6), a TIMESTAMP(6), b TIMESTAMP(6), k BIGINT, v BIGINT,
          WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet',
              'max-files-per-trigger' = '1');
    """)
    return fresh_session


@pytest.mark.parametrize("name", among(QUERIES, long=["session", "rows", "again"]))
def test_intervals_of_a_stream_are_those_of_a_batch(name: str, db: sqlwin.Session) -> None:
    query = QUERIES[name]
    one_phase = "SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';"
    expected = rows(db, BATCH + one_phase + query)
    assert len(expected) > 1
    db.execute("RESET 'table.optimizer.agg-phase-strategy'")
    assert rows(db, BATCH + query) == expected
    assert rows(db, STREAMING + query) == expected


def test_intervals_add_up(db: sqlwin.Session) -> None:
    (row, *_) = rows(
        db,
        f"""{BATCH} SELECT MAX(b - a), SUM(b - a), AVG(b - a), COUNT(DISTINCT b - a)
        FROM {TUMBLE} GROUP BY window_start, window_end ORDER BY window_end DESC""",
    )
    us = dt.timedelta(microseconds=1)
    seconds = dt.timedelta(seconds=1)
    # 5, -3, 5, NULL, 0 and 400 days, each plus a microsecond; AVG rounds
    far = 86_400 * 400
    expected = {
        (far * seconds + us, (far + 7) * seconds + 5 * us, (far + 7) * seconds / 5 + us, 4),
        (90 * seconds + us, (-86_400 + 105) * seconds + 6 * us, (-86_400 + 105) * seconds / 6 + us, 6),
    }  # fmt: skip
    assert row in expected


def test_intervals_are_aggregated_before_they_travel(db: sqlwin.Session) -> None:
    plan = db.execute(f"EXPLAIN {QUERIES['values']}")[-1].text
    assert "LocalWindowAggregate" in plan
