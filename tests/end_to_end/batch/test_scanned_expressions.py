"""Computed columns, projections and struct fields in the Arrow scan give the same as in Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from tests.conftest import drop_views
from tests.marks import among

SCAN = "ArrowScanLocalWindowAggregate("
BY_SPARK = "SET 'sqlwin.optimizer.disabled-rules' = 'push_local_aggregate_into_scan';"
BY_ARROW = "RESET 'sqlwin.optimizer.disabled-rules';"
TABLE = """
    CREATE TABLE events (
      kind INT, ms BIGINT, sec INT,
      bid STRUCT<auction: BIGINT, Price: BIGINT, channel: STRING, at: TIMESTAMP_NTZ>,
      deep STRUCT<inner: STRUCT<x: INT>, list: ARRAY<INT>>,
      ts AS TO_TIMESTAMP_LTZ(ms, 3),
      started AS TO_TIMESTAMP_LTZ(sec, 0),
      at AS bid.at,
      cents AS bid.price * 100,
      big AS CASE WHEN kind = 2 THEN bid.price > 50 ELSE FALSE END,
      shout AS INITCAP(bid.channel),
      WATERMARK FOR at AS at - INTERVAL '5' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')
"""


def rows_of(seed: int) -> pa.Table:
    rng = random.Random(seed)

    def maybe(value):
        return None if rng.random() < 0.1 else value

    def bid():
        return {
            "auction": maybe(rng.randrange(4)),
            "Price": maybe(rng.randrange(100)),
            "channel": maybe(rng.choice(["web", "app", "ä"])),
            "at": maybe(rng.randrange(3_600) * 1_000_000),
        }

    bid_type = pa.struct(
        {
            "auction": pa.int64(),
            "Price": pa.int64(),
            "channel": pa.string(),
            "at": pa.timestamp("us"),
        }
    )
    deep_type = pa.struct(
        [("inner", pa.struct([("x", pa.int32())])), ("list", pa.list_(pa.int32()))]
    )
    seconds = [maybe(rng.randrange(-3_600, 3_600)) for _ in range(500)]
    return pa.table(
        {
            "kind": pa.array([rng.randrange(3) for _ in range(500)], pa.int32()),
            "ms": pa.array([None if s is None else s * 1_000 + 7 for s in seconds], pa.int64()),
            "sec": pa.array(seconds, pa.int32()),
            "bid": pa.array([maybe(bid()) for _ in range(500)], bid_type),
            "deep": pa.array([{"inner": {"x": 1}, "list": [1]}] * 500, deep_type),
        }
    )


@pytest.fixture(scope="module")
def events(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[sqlwin.Session]:
    directory = tmp_path_factory.mktemp("events")
    for number in range(2):
        pq.write_table(rows_of(number), directory / f"{number}.parquet", row_group_size=150)
    session = sqlwin.connect(spark)
    session.execute(TABLE.format(path=directory))
    session.execute(VIEWS)
    yield session
    drop_views(spark)


def rows(session: sqlwin.Session, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in session.execute(query)[-1].rows), key=repr)


def windowed_query(columns: str, table: str, time: str, keys: str = "", where: str = "") -> str:
    return f"""
        SELECT {keys}{columns}, window_start, window_end
        FROM TABLE(HOP(TABLE {table}, DESCRIPTOR({time}), INTERVAL '5' MINUTES, INTERVAL '20' MINUTES))
        {where} GROUP BY {keys}window_start, window_end"""


SCANNED = {
    "epoch": windowed_query("COUNT(*), SUM(kind)", "events", "ts"),
    "seconds": windowed_query("COUNT(*)", "events", "started", where="WHERE kind <> 1"),
    "field": windowed_query("COUNT(*), SUM(bid.price), MAX(bid.channel)", "events", "at"),
    "field as key": windowed_query("COUNT(bid.auction)", "events", "at", keys="bid.channel, "),
    "computed": windowed_query("SUM(cents), COUNT(*) FILTER (WHERE big)", "events", "ts"),
    "computed where": windowed_query(
        "MIN(cents)", "events", "at", where="WHERE big OR cents < 900"
    ),
    "view": windowed_query("SUM(price), COUNT(*)", "bids", "at", keys="auction, channel, "),
    "view by epoch": windowed_query("AVG(price)", "bids", "ts", where="WHERE price > 20"),
    "projection": windowed_query("SUM(twice)", "doubled", "at"),
}
VIEWS = """
    CREATE VIEW bids AS
    SELECT e.bid.auction AS auction, cents / 100 AS price, bid.channel, at, ts
    FROM events AS e WHERE e.kind = 2 AND ts IS NOT NULL;
    CREATE VIEW doubled AS SELECT at, 2 * cents AS twice FROM events;
    CREATE VIEW one_row AS SELECT TIMESTAMP_NTZ'1970-01-01 00:01:00' AS at, COUNT(*) AS n FROM events;
    CREATE VIEW several AS SELECT at, EXPLODE(ARRAY(1, 2)) AS n FROM events;
    CREATE VIEW distinct_rows AS SELECT DISTINCT at, kind FROM events;
"""
LEFT_TO_SPARK = {
    "deeper": (windowed_query("SUM(deep.inner.x)", "events", "at"), "deep.inner.x"),
    "list": (windowed_query("COUNT(deep.list)", "events", "at"), "deep.list is ARRAY<INT>"),
    "one row": (windowed_query("COUNT(*)", "one_row", "at"), "COUNT is not supported"),
    "several rows": (windowed_query("COUNT(*)", "several", "at"), "is not supported by the scan"),
    "distinct": (windowed_query("COUNT(*)", "distinct_rows", "at"), "does more than filter and project"),
    "function": (windowed_query("COUNT(*)", "events", "at", keys="shout, "), "INITCAP is not supported"),
}  # fmt: skip


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "name", among(SCANNED, long=["field as key", "computed where", "view by epoch", "seconds"])
)
def test_the_scan_equals_spark(name: str, events: sqlwin.Session) -> None:
    query = SCANNED[name]
    expected = rows(events, BY_SPARK + query)
    assert expected
    events.execute(BY_ARROW)
    assert SCAN in events.explain(query)
    assert rows(events, query) == expected


@pytest.mark.long
def test_the_rest_is_left_to_spark_with_the_reason(events: sqlwin.Session) -> None:
    for query, reason in LEFT_TO_SPARK.values():
        explained = events.explain(query)
        assert SCAN not in explained
        assert reason in explained


@pytest.mark.long
def test_streams_read_fields_and_computed_columns_of_files_too(events: sqlwin.Session) -> None:
    query = SCANNED["view"]
    expected = rows(events, query)
    events.execute("SET 'execution.runtime-mode' = 'streaming'")
    try:
        assert SCAN in events.explain(query)
        assert rows(events, query) == expected
    finally:
        events.execute("RESET 'execution.runtime-mode'")


def test_an_instant_beyond_all_times_is_an_error_in_one_line(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    path = tmp_path / "far.parquet"
    pq.write_table(pa.table({"ms": [1, 2**62]}), path)
    fresh_session.execute(f"""
        CREATE TABLE far (ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3))
        WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')
    """)
    query = windowed_query("COUNT(*)", "far", "ts")
    assert SCAN in fresh_session.explain(query)
    with pytest.raises(sqlwin.SqlwinError) as caught:
        rows(fresh_session, query)
    assert "TIMESTAMP_MILLIS" in caught.value.message
