"""Temporal joins with the changes of a table give the rows that a nested loop finds.

Spark makes the plans, because only it reads Kafka tables; the streams run in this process.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import sqlwin
from runtime.refusal import Refusal
from runtime.simulator.check import disagreement
from runtime.simulator.compare import difference
from runtime.spec.table import CHANGE_ORDER, CHANGE_SPLIT, IS_DELETED
from sqlwin.control import SessionControl
from sqlwin.execution.simulated import Simulated
from sqlwin.statements.parse import parse_statement
from sqlwin.testing.simulated import stream_over
from tests.marks import among
from tests.runtime.simulator.queries import COLUMNS, START, rows_table

QUERY = """SELECT a.ts, a.k, a.v, b.k AS bk, b.v AS w, b.ts AS since FROM changed_events AS a
  {words} changed_rates FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k"""
CHANGES = "changed_rates /*+ changes */"
TIMES = st.integers(0, 30).map(lambda s: s * 500)
KEYS = st.sampled_from(["a", "b"])
LEFT = st.lists(st.tuples(TIMES, st.sampled_from(["a", "b", None]), st.integers(0, 9)), max_size=10)
# time, key and value of each change; None deletes the row
RIGHT = st.lists(st.tuples(TIMES, KEYS, st.one_of(st.none(), st.integers(0, 9))), max_size=12)


@pytest.fixture(scope="module")
def own_session(spark: SparkSession) -> Iterator[sqlwin.Session]:
    """Provide a session for the tables of this module, which are dropped at its end."""
    session = sqlwin.connect(spark)
    yield session
    for name in ("changed_events", "changed_rates"):
        session.execute(f"DROP TABLE IF EXISTS {name}")


def joined(session: sqlwin.Session, words: str) -> Simulated:
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS)
    session.execute(
        f"""CREATE OR REPLACE TABLE changed_events ({columns}, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
        WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'parquet')"""
    )
    session.execute(
        """CREATE OR REPLACE TABLE changed_rates (k STRING, v BIGINT,
          ts TIMESTAMP(3) METADATA FROM 'timestamp', WATERMARK FOR ts AS ts - INTERVAL '2' SECOND,
          PRIMARY KEY (k) NOT ENFORCED)
        WITH ('connector' = 'upsert-kafka', 'topic' = 'x', 'key.format' = 'json',
          'value.format' = 'json', 'properties.bootstrap.servers' = 'nowhere:1')"""
    )
    result = SessionControl(session).simulated(parse_statement(QUERY.format(words=words)))
    assert isinstance(result, Simulated), result
    return result


def changes_table(changes: list[tuple]) -> pa.Table:
    """Return changes as rows of the table that the join reads, in their order."""
    rows = rows_table([(ms, key, value, None) for ms, key, value in changes])
    n = len(changes)
    return pa.table(
        {
            "k": rows["k"],
            "v": rows["v"],
            "ts": rows["ts"],
            CHANGE_ORDER: pa.array(range(n), pa.int64()),
            IS_DELETED: pa.array([value is None for *_, value in changes], pa.bool_()),
            CHANGE_SPLIT: pa.array([0] * n, pa.int32()),
        }
    )


def nested_loop(words: str, left: list[tuple], right: list[tuple]) -> list[dict]:
    """Return the rows of the join, by definition."""
    at = {ms: START + dt.timedelta(milliseconds=ms) for ms, *_ in (*left, *right)}
    rows = []
    for ms, key, v in left:
        held = [
            (since, order, value)
            for order, (since, other, value) in enumerate(right)
            if other == key and since <= ms
        ]
        since, _, w = max(held) if held else (None, None, None)
        row = {"ts": at[ms], "k": key, "v": v, "bk": None, "w": None, "since": None}
        if w is not None:
            row |= {"bk": key, "w": w, "since": at[since]}
        if w is not None or words == "LEFT JOIN":
            rows.append(row)
    return rows


@pytest.mark.long
@pytest.mark.parametrize("words", among(["LEFT JOIN", "JOIN"], long=["JOIN"]))
@example(
    #  a: 1 at 1 s, deleted at 2 s, 3 at 3 s; changes at the same time apply in their order
    left=[(500, "a", 0), (1_000, "a", 1), (2_000, "a", 2), (2_500, "a", 3), (3_000, "a", 4)],
    right=[(1_000, "a", 9), (1_000, "a", 1), (2_000, "a", 8), (2_000, "a", None), (3_000, "a", 3)],
)
@settings(max_examples=3)
@given(left=LEFT, right=RIGHT)
def test_a_deletion_ends_the_last_version_of_its_key(own_session, words, left, right):
    left, right = (sorted(rows, key=lambda row: row[0]) for rows in (left, right))
    of = stream_over(
        joined(own_session, words),
        {
            "changed_events": rows_table([(*row, None) for row in left]),
            CHANGES: changes_table(right),
        },
    )
    expected = nested_loop(words, left, right)
    defined = of.defined(of.order)
    assert not isinstance(defined, Refusal), defined
    assert difference(expected, defined.rows) is None
    for number in range(3):
        mismatch = disagreement(of, of.history(number), expected, number)
        assert mismatch is None, mismatch
        # a deleted version is not in the state
        assert all(b.needless is None for b in of.run(of.history(number)).batches)
