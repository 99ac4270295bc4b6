"""Queries over files run in this process, or EXPLAIN gives the reason why Spark runs them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from sqlwin.result.in_process import InProcessRows
from sqlwin.session import Session
from tests.unstarted import NeedsSparkError, unstarted_spark

QUARTER_US = 900_000_000
# the night in which clocks in Berlin go forward
START_US = int(datetime(2024, 3, 29, tzinfo=UTC).timestamp()) * 1_000_000
SETTING = "sqlwin.in-process.max-bytes"
TUMBLE = "TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR)"
WINDOWS = (
    "SELECT city, window_start, window_end, COUNT(*) AS n, SUM(fare) AS s, MAX(rider) AS r "
    f"FROM TABLE({TUMBLE}) GROUP BY city, window_start, window_end"
)


def trips(n_rows: int, seed: int) -> pa.Table:
    """Return rows with NULLs, NaN, ties and rows without a time."""
    draw = random.Random(seed)
    times = [START_US + draw.randrange(400) * QUARTER_US // 3 for _ in range(n_rows)]
    with_nulls = [None if draw.random() < 0.02 else time for time in times]
    doubles = [draw.choice([math.nan, -0.0, 0.0, 1e300, draw.random() * 100]) for _ in times]
    return pa.table(
        {
            "ts": pa.array(with_nulls, pa.timestamp("us")),
            "tz": pa.array(with_nulls, pa.timestamp("us", "UTC")),
            "city": pa.array(draw.choices(["a", "b", "c", None], k=n_rows), pa.string()),
            "rider": pa.array([f"r{draw.randrange(40)}" for _ in times]),
            "fare": pa.array([draw.choice([None, draw.randrange(-50, 50)]) for _ in times]),
            "x": pa.array(doubles, pa.float64()),
            "price": pa.array(
                [Decimal(draw.randrange(-999, 999)) / 4 for _ in times], pa.decimal128(9, 2)
            ),
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trips")
    for number in range(3):
        # several row groups, so that there are several splits
        rows = trips(900, number)
        pq.write_table(rows, path / f"{number}.parquet", row_group_size=200)
    return path


@pytest.fixture
def session(fresh_session: sqlwin.Session, path: Path) -> Iterator[sqlwin.Session]:
    fresh_session.execute(
        f"CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{path}');"
        f"SET '{SETTING}' = '1 gb'"
    )
    return fresh_session


def rows_of(session: sqlwin.Session, sql: str, *, in_process: bool) -> pa.Table:
    (result,) = session.execute(sql)
    assert isinstance(result.data, InProcessRows) is in_process
    return result.to_arrow()


def comparable(rows: pa.Table) -> list[str]:
    """Return the rows as text, with doubles rounded to nine digits and -0.0 as 0.0.

    Sums, and which zero is the smallest, depend on the order of rows.
    """
    return sorted(
        repr([f"{v + 0.0:.9g}" if isinstance(v, float) else v for v in row.values()])
        for row in rows.to_pylist()
    )


def test_rows_without_a_time_are_counted_in_a_note(session: sqlwin.Session) -> None:
    sql = WINDOWS
    (in_process,) = session.execute(sql)
    in_process.to_arrow()
    session.execute(f"SET '{SETTING}' = '0'")
    (by_spark,) = session.execute(sql)
    by_spark.to_arrow()
    assert in_process.notes == by_spark.notes and "with NULL in `ts`" in in_process.notes[0]


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            f"SELECT window_end, INITCAP(MAX(city)) AS d FROM TABLE({TUMBLE}) "
            "GROUP BY window_start, window_end",
            "INITCAP is not supported in this process",
        ),
        (
            f"SELECT window_end, SUM(ASCII(city)) AS d FROM TABLE({TUMBLE}) "
            "GROUP BY window_start, window_end",
            "ASCII is not supported in this process",
        ),
        ("SELECT INITCAP(city) AS u FROM trips", "INITCAP is not supported in this process"),
        ("SELECT first(city) AS f FROM trips", "FIRST without windows has no defined order"),
        ("SELECT a.x FROM trips AS a JOIN trips AS b ON a.ts = b.ts", "Spark computes joins"),
        ("SELECT price DIV 2 AS p FROM trips", "DIV of decimals is not supported in this process"),
        ("SELECT city FROM trips UNION SELECT rider FROM trips", "what follows UNION"),
        ("SELECT city FROM trips WHERE fare IN (SELECT 1)", "IN with a subquery"),
        ("SELECT COUNT(*) AS n FROM range(3)", "Spark reads range"),
    ],
)
def test_explain_says_why_spark_runs_a_query(
    session: sqlwin.Session, sql: str, reason: str
) -> None:
    place = session.explain(sql).partition("== Execution ==\n")[2]
    assert place.startswith("on Spark: ") and reason in place
    assert rows_of(session, sql, in_process=False).num_rows >= 0


def test_larger_files_are_left_to_spark(session: sqlwin.Session) -> None:
    sql = WINDOWS
    session.execute(f"SET '{SETTING}' = '10 kb'")
    assert f"have more bytes than '{SETTING}'" in session.explain(sql)
    assert rows_of(session, sql, in_process=False).num_rows


def test_a_small_machine_leaves_more_files_to_spark(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(unstarted_spark(), settings={})
    session.execute(f"CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{path}')")
    sql = WINDOWS
    assert "in process: " in session.explain(sql)
    monkeypatch.setattr("runtime.spark.defaults.machine_memory", lambda: 200_000)
    assert f"have more bytes than '{SETTING}'" in session.explain(sql)
    session.execute(f"SET '{SETTING}' = '512 mb'")
    assert "in process: " in session.explain(sql), "the user's choice"


def test_a_spark_that_was_passed_in_runs_all_queries(
    session: sqlwin.Session,
) -> None:
    session.execute(f"RESET '{SETTING}'")
    sql = WINDOWS
    assert "== Execution ==" not in session.explain(sql)
    assert rows_of(session, sql, in_process=False).num_rows


def test_a_session_without_spark_answers_and_starts_it_for_other_queries(path: Path) -> None:
    session = Session(unstarted_spark(), settings={})
    session.execute(f"CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{path}')")
    assert rows_of(session, WINDOWS, in_process=True).num_rows
    with pytest.raises(NeedsSparkError):
        session.execute("SELECT INITCAP(city) AS u FROM trips")
    # a DataFrame is Spark's
    with pytest.raises(NeedsSparkError):
        session.sql(WINDOWS)


def test_a_removed_file_is_one_error(tmp_path: Path) -> None:
    pq.write_table(trips(50, 1), tmp_path / "a.parquet")
    session = Session(unstarted_spark(), settings={})
    session.execute(f"CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{tmp_path}')")
    (result,) = session.execute(WINDOWS)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(sqlwin.SqlwinError, match=r"a\.parquet"):
        result.to_arrow()


def test_a_limit_does_not_read_all_rows(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(0, 1 << 60, 3_000_000)
    pq.write_table(pa.table({"x": numbers}), tmp_path / "a.parquet", row_group_size=100_000)
    session = Session(unstarted_spark(), settings={})
    (result,) = session.execute(f"SELECT x FROM '{tmp_path}/a.parquet' LIMIT 5")
    assert result.to_arrow().num_rows == 5
    assert result.scan_counts is not None and 5 <= result.scan_counts.rows_read() < 3_000_000


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], [2], None]),
        pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        pa.array([{"x": [1]}, {"x": None}, None]),
    ],
    ids=["array", "map", "struct"],
)
def test_rows_of_nested_columns_alone_are_counted(
    column: pa.Array, fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet")
    fresh_session.execute(f"SET '{SETTING}' = '1 gb'")
    for sql in ("SELECT COUNT(*) AS n", "SELECT SUM(n) AS n FROM (SELECT 1 AS n"):
        (result,) = fresh_session.execute(
            f"{sql} FROM '{tmp_path}/a.parquet'" + ")" * sql.count("(SELECT")
        )
        assert result.to_arrow().to_pylist() == [{"n": 3}]
