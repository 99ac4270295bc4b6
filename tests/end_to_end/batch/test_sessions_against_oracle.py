"""SESSION on random rows, compared with sessions from plain Python, grouped by DuckDB."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.spark.versions.capabilities import TEXT_AGGREGATES, has
from runtime.spark.versions.frames import to_arrow
from tests.end_to_end.batch.test_windows_against_oracle import AGGREGATES, random_rows
from tests.oracle import MINUTE_US, same_rows

GAP_US = 3 * MINUTE_US
BOUNDS = ("window_start", "window_end")


def with_sessions(
    data: pa.Table, partition: Sequence[str], gap_us: int, zone: str = "UTC"
) -> pa.Table:
    """Return the rows that have a time, with `begins` and `ends`, the bounds of their session."""
    rows = [row for row in data.to_pylist() if row["ts"] is not None]
    partitions = defaultdict(list)
    for row in rows:
        row["time_us"] = wall_us(row["ts"], zone)
        partitions[tuple(row[name] for name in partition)].append(row)
    for members in partitions.values():
        members.sort(key=lambda row: row["time_us"])
        first = 0
        for i, row in enumerate(members):
            if i + 1 == len(members) or members[i + 1]["time_us"] - row["time_us"] > gap_us:
                for inside in members[first : i + 1]:
                    inside["begins"], inside["ends"] = (
                        members[first]["time_us"],
                        row["time_us"] + gap_us,
                    )
                first = i + 1
    fields = [*data.schema, *(pa.field(name, pa.int64()) for name in ("time_us", "begins", "ends"))]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def wall_us(time: datetime, zone: str) -> int:
    if time.tzinfo is not None:
        time = time.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    since = time.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def expected(rows: pa.Table, keys: Sequence[str], calls: Sequence[str]) -> list[tuple[Any, ...]]:
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("sessions", rows)
    groups = ", ".join([*keys, "begins", "ends"])
    return con.execute(
        f"SELECT {groups}, {', '.join(calls)} FROM sessions GROUP BY {groups}"
    ).fetchall()


def rows_of(session: Any, query: str) -> list[Any]:
    table = to_arrow(session.sql(query))
    columns = [
        (column.cast(pa.int64()) if name in BOUNDS else column).to_pylist()
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return list(zip(*columns, strict=True))


def call(partition: Sequence[str], gap_us: int = GAP_US) -> str:
    by = f" PARTITION BY ({', '.join(partition)})" if partition else ""
    return f"TABLE(SESSION(TABLE data{by}, DESCRIPTOR(ts), INTERVAL '{gap_us // 10**6}' SECOND))"


def query_of(partition: Sequence[str], keys: Sequence[str], calls: Sequence[str]) -> str:
    groups = ", ".join([*keys, *BOUNDS])
    return f"SELECT {groups}, {', '.join(calls)} FROM {call(partition)} GROUP BY {groups}"


@pytest.fixture
def files(session: Any, tmp_path: Path) -> Iterator[pa.Table]:
    """Register random rows as a table of files; `data_frame` reads them with Spark's reader."""
    data = random_rows(seed=17)
    pq.write_table(data, tmp_path / "data.parquet", row_group_size=90)
    session.execute(f"""
        CREATE OR REPLACE TABLE data WITH (
          'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/data.parquet')
    """)
    yield data
    session.execute("DROP TABLE data")


def both_phases(session: Any, query: str) -> Iterator[list[Any]]:
    yield rows_of(session, query)
    session.execute("SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'")
    try:
        yield rows_of(session, query)
    finally:
        session.execute("RESET 'table.optimizer.agg-phase-strategy'")


@pytest.mark.long
def test_all_aggregates_of_sessions_equal_brute_force(session: Any, files: pa.Table) -> None:
    calls = [call for call, _ in AGGREGATES]
    spelled = [other or call for call, other in AGGREGATES]
    expected_rows = expected(with_sessions(files, ["k"], GAP_US), ["k"], spelled)
    assert len(expected_rows) > 50
    for both_phase in both_phases(session, query_of(["k"], ["k"], calls)):
        same_rows(both_phase, expected_rows)


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("partition", "keys"),
    [
        pytest.param((), (), marks=pytest.mark.slow),
        pytest.param((), ("k",), marks=pytest.mark.slow),
        (("k",), ("k", "s")),
        (("s", "k"), ("k", "s")),
        (("k",), ()),
    ],
    ids=str,
)
def test_partition_keys_and_group_keys_may_differ(
    session: Any, files: pa.Table, partition: Sequence[str], keys: Sequence[str]
) -> None:
    calls = ["COUNT(*)", "SUM(i)", "MIN(s)", "FIRST_VALUE(i)"]
    duckdbs = [*calls[:3], "first(i ORDER BY ts) FILTER (WHERE i IS NOT NULL)"]
    if has(TEXT_AGGREGATES):
        calls.append("LISTAGG(s)")
        duckdbs.append("string_agg(s, ',' ORDER BY ts)")
    rows = with_sessions(files, partition, GAP_US)
    expected_rows = expected(rows, [f"sessions.{key}" for key in keys], duckdbs)
    query = query_of(partition, keys, calls)
    for both_phase in both_phases(session, query):
        same_rows(both_phase, expected_rows)
    is_nested = set(partition) <= set(keys)
    assert ("GlobalWindowAggregate" in session.explain(query)) is is_nested
    assert ("ArrowScanLocalWindowAggregate" in session.explain(query)) is is_nested


@pytest.mark.long
def test_rows_keep_their_columns_and_get_the_bounds_of_their_session(
    session: Any, files: pa.Table
) -> None:
    query = f"SELECT i, ts, window_start, window_end, window_time FROM {call(['k'])}"
    result = [(i, wall_us(ts, "UTC"), start, end, wall_us(time, "UTC"))
             for i, ts, start, end, time in rows_of(session, query)]  # fmt: skip
    rows = with_sessions(files, ["k"], GAP_US).to_pylist()
    same_rows(
        result, [(r["i"], r["time_us"], r["begins"], r["ends"], r["ends"] - 1000) for r in rows]
    )


@pytest.mark.long
def test_conditions_on_partitions_apply_before_sessions(session: Any, files: pa.Table) -> None:
    rows = with_sessions(files, ["k"], GAP_US)
    for condition, stays in [("i > 0", True), ("k = 1", False), ("k > 1 AND i > 0", True)]:
        kept = duckdb.from_arrow(rows).filter(condition).to_arrow_table()
        query = query_of(["k"], ["k"], ["COUNT(*)"]).replace("GROUP", f"WHERE {condition} GROUP")
        same_rows(rows_of(session, query), expected(kept, ["k"], ["COUNT(*)"]))
        assert ("remove rows from sessions" in session.explain(query)) is stays


@pytest.mark.long
def test_sessions_of_instants_are_on_the_wall_clock(session: Any, tmp_path: Path) -> None:
    # 1:59 and 3:00 in New York are one minute apart on 10 March 2024, but 61 on the wall clock; on
    # 3 November, the second 1:10 is 20 minutes after 1:50, but 40 minutes before it on the wall
    # clock
    instants = ["2024-03-10T06:59", "2024-03-10T07:00", "2024-11-03T05:50", "2024-11-03T06:10"]
    times = [datetime.fromisoformat(instant + "+00:00") for instant in instants]
    data = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "i": [1, 2, 3, 4]})
    pq.write_table(data, tmp_path / "data.parquet")
    session.register("data", session.spark.read.parquet(str(tmp_path / "data.parquet")))
    session.execute("SET 'table.local-time-zone' = 'America/New_York'")
    try:
        gap = 45 * MINUTE_US
        query = query_of([], [], ["COUNT(*)"]).replace(call([]), call([], gap))
        expected_rows = expected(with_sessions(data, [], gap, "America/New_York"), [], ["COUNT(*)"])
        assert sorted(row[-1] for row in expected_rows) == [1, 1, 2]
        for both_phase in both_phases(session, query):
            same_rows(both_phase, expected_rows)
    finally:
        session.execute("SET 'table.local-time-zone' = 'UTC'")


def test_windows_over_the_time_of_sessions(session: Any, files: pa.Table) -> None:
    sessions = f"""(SELECT k, window_time AS closed, COUNT(*) AS n FROM {call(["k"])}
                    GROUP BY k, window_start, window_end, window_time)"""
    query = f"""SELECT window_start, window_end, COUNT(*), SUM(n) FROM
        TABLE(TUMBLE(TABLE {sessions}, DESCRIPTOR(closed), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end"""
    expected_counts = expected(with_sessions(files, ["k"], GAP_US), ["k"], ["COUNT(*)"])
    hours = defaultdict(list)
    for _, _, end, n in expected_counts:
        hours[(end - 1000) // (60 * MINUTE_US)].append(n)
    hour = 60 * MINUTE_US
    same_rows(
        rows_of(session, query),
        [(h * hour, (h + 1) * hour, len(ns), sum(ns)) for h, ns in hours.items()],
    )
