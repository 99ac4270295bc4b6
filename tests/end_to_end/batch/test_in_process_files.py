"""Windows over files computed in this process equal Spark's."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

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
WINDOWS = {
    "tumble": "TUMBLE(TABLE trips, DESCRIPTOR({time}), INTERVAL '1' HOUR)",
    "offset": "TUMBLE(TABLE trips, DESCRIPTOR({time}), INTERVAL '1' HOUR, INTERVAL '10' MINUTE)",
    "hop": "HOP(TABLE trips, DESCRIPTOR({time}), INTERVAL '30' MINUTE, INTERVAL '2' HOUR)",
    "uneven": "HOP(TABLE trips, DESCRIPTOR({time}), INTERVAL '25' MINUTE, INTERVAL '1' HOUR)",
    "cumulate": "CUMULATE(TABLE trips, DESCRIPTOR({time}), INTERVAL '2' HOUR, INTERVAL '1' DAY)",
    "month": "TUMBLE(TABLE trips, DESCRIPTOR({time}), INTERVAL '1' MONTH)",
}
AGGREGATES = (
    "COUNT(*) AS n, COUNT(fare) AS k, SUM(fare) AS s, AVG(fare) AS a, MIN(x) AS low, "
    "MAX(x) AS high, SUM(price) AS p, MAX(rider) AS r, ROUND(AVG(fare), 1) AS rounded"
)
QUERIES = {
    name: f"SELECT city, window_start, window_end, {AGGREGATES} FROM TABLE({window}) "
    "WHERE fare > -40 GROUP BY city, window_start, window_end"
    for name, window in WINDOWS.items()
}
TUMBLE = WINDOWS["tumble"]
QUERIES |= {
    "no key": f"SELECT window_end, SUM(x) AS s FROM TABLE({TUMBLE}) GROUP BY window_start, "
    "window_end",
    "having": f"SELECT city, window_end, SUM(fare) + 1 AS s FROM TABLE({TUMBLE}) "
    "GROUP BY city, window_start, window_end HAVING COUNT(*) > 3",
    "distinct": f"SELECT window_end, COUNT(DISTINCT rider) AS d FROM TABLE({TUMBLE}) "
    "GROUP BY window_start, window_end",
    "approximate": f"SELECT window_end, APPROX_COUNT_DISTINCT(rider) AS d FROM TABLE({TUMBLE}) "
    "GROUP BY window_start, window_end",
    "filter": f"SELECT window_end, SUM(fare) FILTER (WHERE x > 0) AS s FROM TABLE({TUMBLE}) "
    "GROUP BY window_start, window_end",
    "session": "SELECT city, window_start, window_end, SUM(fare) AS s FROM TABLE(SESSION(TABLE trips "
    "PARTITION BY city, DESCRIPTOR({time}), INTERVAL '20' MINUTE)) GROUP BY city, window_start, "
    "window_end",
    "no row": f"SELECT city, window_end, SUM(fare) AS s FROM TABLE({TUMBLE}) WHERE fare > 1000 "
    "GROUP BY city, window_start, window_end",
    "ordered": f"SELECT city, window_end, SUM(fare) AS s FROM TABLE({TUMBLE}) "
    "GROUP BY city, window_start, window_end ORDER BY s DESC, window_end, city LIMIT 20",
    "ranked": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    "ORDER BY s DESC, city) AS rn FROM (SELECT city, window_start, window_end, SUM(fare) AS s "
    f"FROM TABLE({TUMBLE}) GROUP BY city, window_start, window_end)) WHERE rn <= 2",
}


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


@pytest.mark.variants(2)
@pytest.mark.parametrize("zone", ["UTC", pytest.param("Europe/Berlin", marks=pytest.mark.long)])
@pytest.mark.parametrize("time", ["ts", pytest.param("tz", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_the_ones_of_spark(
    session: sqlwin.Session, name: str, time: str, zone: str
) -> None:
    session.execute(f"SET 'table.local-time-zone' = '{zone}'")
    sql = QUERIES[name].format(time=time)
    explained = session.explain(sql)
    if time == "tz" and "in process" not in explained:
        assert "on Spark: " in explained  # results with instants
        return
    assert "in process: reads and aggregates the files" in explained
    in_process = rows_of(session, sql, in_process=True)
    session.execute(f"SET '{SETTING}' = '0'")
    existing = rows_of(session, sql, in_process=False)
    assert (
        in_process.schema.names == existing.schema.names
        and in_process.schema.types == existing.schema.types
    )
    if "ORDER BY s DESC" in sql and "rn" not in sql:
        assert in_process.to_pylist() == existing.to_pylist()
    assert comparable(in_process) == comparable(existing)


def test_rows_without_a_time_are_counted_in_a_note(session: sqlwin.Session) -> None:
    sql = QUERIES["no key"].format(time="ts")
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
    ],
)
def test_explain_says_why_spark_runs_a_query(
    session: sqlwin.Session, sql: str, reason: str
) -> None:
    sql = sql.format(time="ts")
    assert f"on Spark: {reason}" in session.explain(sql)
    assert rows_of(session, sql, in_process=False).num_rows


def test_larger_files_are_left_to_spark(session: sqlwin.Session) -> None:
    sql = QUERIES["tumble"].format(time="ts")
    session.execute(f"SET '{SETTING}' = '10 kb'")
    assert f"have more bytes than '{SETTING}'" in session.explain(sql)
    assert rows_of(session, sql, in_process=False).num_rows


def test_a_small_machine_leaves_more_files_to_spark(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(unstarted_spark(), settings={})
    session.execute(f"CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{path}')")
    sql = QUERIES["tumble"].format(time="ts")
    assert "in process: " in session.explain(sql)
    monkeypatch.setattr("runtime.spark.defaults.machine_memory", lambda: 200_000)
    assert f"have more bytes than '{SETTING}'" in session.explain(sql)
    session.execute(f"SET '{SETTING}' = '512 mb'")
    assert "in process: " in session.explain(sql), "the user's choice"


def test_a_spark_that_was_passed_in_runs_all_queries(
    session: sqlwin.Session,
) -> None:
    session.execute(f"RESET '{SETTING}'")
    sql = QUERIES["tumble"].format(time="ts")
    assert "== Execution ==" not in session.explain(sql)
    assert rows_of(session, sql, in_process=False).num_rows


def test_a_session_without_spark_answers_and_starts_it_for_other_queries(path: Path) -> None:
    session = Session(unstarted_spark(), settings={})
    session.execute(f"CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{path}')")
    assert rows_of(session, QUERIES["hop"].format(time="ts"), in_process=True).num_rows
    with pytest.raises(NeedsSparkError):
        session.execute("SELECT INITCAP(city) AS u FROM trips")
    # a DataFrame is Spark's
    with pytest.raises(NeedsSparkError):
        session.sql(QUERIES["hop"].format(time="ts"))


def test_a_removed_file_is_one_error(tmp_path: Path) -> None:
    pq.write_table(trips(50, 1), tmp_path / "a.parquet")
    session = Session(unstarted_spark(), settings={})
    session.execute(f"CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{tmp_path}')")
    (result,) = session.execute(QUERIES["tumble"].format(time="ts"))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(sqlwin.SqlwinError, match=r"a\.parquet"):
        result.to_arrow()
