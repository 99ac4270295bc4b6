"""Temporal joins: rows of a table at the time of a row, in batch and on streams."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.end_to_end.stream_files import write_keys

pytestmark = pytest.mark.long

RATES = """CREATE OR REPLACE TABLE rates (k STRING, since TIMESTAMP(6), rate INT,
  WATERMARK FOR since AS since, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = '{path}/rates.csv', 'format' = 'csv')"""
ROWS = """a,1970-01-01 00:00:05,1
a,1970-01-01 00:00:10,2
b,1970-01-01 00:00:00,7
a,1970-01-01 00:00:20,3
,1970-01-01 00:00:00,9
"""
#  a:     1     2          3
#   0     5     10   15    20   25
EVENTS = [
    (4, "a"),
    (5, "a"),
    (9, "a"),
    (10, "a"),
    (19, "a"),
    (20, "a"),
    (60, "a"),
    (3, "b"),
    (3, "c"),
]
EXPECTED = [
    ("a", 4, None), ("a", 5, 1), ("a", 9, 1), ("a", 10, 2), ("a", 19, 2), ("a", 20, 3),
    ("a", 60, 3), ("b", 3, 7), ("c", 3, None),
]  # fmt: skip
LEFT = """SELECT o.k, o.at, r.rate FROM (SELECT *, minute(ts) * 60 + second(ts) AS at FROM orders) AS o
  LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k"""


@pytest.fixture
def tables(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    (tmp_path / "rates.csv").write_text(ROWS)
    write_keys(tmp_path / "orders", *EVENTS)
    fresh_session.execute(RATES.format(path=tmp_path))
    fresh_session.execute(
        f"""CREATE TABLE orders (ts TIMESTAMP(6), k STRING, pt AS PROCTIME(),
        WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/orders',
        'format' = 'parquet', 'source.monitor-interval' = '300 ms')"""
    )
    return fresh_session


def test_a_stream_is_joined_with_the_versions_of_a_bounded_table(tables: sqlwin.Session) -> None:
    result = tables.execute(LEFT)[0]
    rows: list[tuple[object, ...]] = []
    for batch in result.batches():
        rows += [tuple(row.values()) for row in batch.to_pylist()]
        if len(rows) >= len(EXPECTED):
            break
    assert sorted(rows) == EXPECTED  # type: ignore[type-var]


@pytest.mark.parametrize("time", ["o.pt", "PROCTIME()"])
def test_a_join_on_processing_time_needs_no_state(tables: sqlwin.Session, time: str) -> None:
    explained = tables.explain(
        f"""SELECT o.k, r.rate FROM orders AS o
        JOIN rates FOR SYSTEM_TIME AS OF {time} AS r ON o.k = r.k"""
    )
    assert "no window operator: rows are emitted as they arrive" in explained


def test_the_key_of_a_stream_may_be_a_value_of_a_map(
    tables: sqlwin.Session, tmp_path: Path
) -> None:
    table = pa.table(
        {
            "ts": pa.array([second * 1_000_000 for second, _ in EVENTS], pa.timestamp("us")),
            "m": pa.array(
                [{"currency": k, "place": "x"} for _, k in EVENTS],
                pa.map_(pa.string(), pa.string()),
            ),
        }
    )
    (tmp_path / "marked").mkdir()
    pq.write_table(table, tmp_path / "marked/0.parquet")
    tables.execute(
        f"""CREATE TABLE marked (ts TIMESTAMP(6), m MAP<STRING, STRING>, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/marked', 'format' = 'parquet')"""
    )
    query = """SELECT o.m['currency'] AS k, minute(o.ts) * 60 + second(o.ts) AS at, r.rate
      FROM {source} LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.m['currency'] = r.k"""
    watched = "marked /*+ OPTIONS('source.monitor-interval' = '300 ms') */ AS o"
    # a batch; a stream with a bounded table
    for source in ("marked AS o", watched):
        rows: list[tuple[object, ...]] = []
        for batch in tables.execute(query.format(source=source))[0].batches():
            rows += [tuple(row.values()) for row in batch.to_pylist()]
            if len(rows) >= len(EXPECTED):
                break
        assert sorted(rows) == EXPECTED, source  # type: ignore[type-var]
    # a stream with a stream, which keeps no maps
    tables.execute("SET 'execution.runtime-mode' = 'streaming'")
    selected = "(SELECT ts, m['currency'] AS k FROM marked) AS o"
    (result,) = tables.execute(query.format(source=selected).replace("o.m['currency']", "o.k"))
    assert sorted(map(tuple, result.rows)) == EXPECTED
