"""Rows assembled without a Spark job equal Spark's."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.marks import among

HOUR_US = 3_600_000_000
# the night in which clocks in Berlin go forward
START_US = int(datetime(2024, 3, 29, tzinfo=UTC).timestamp()) * 1_000_000
WINDOWS = (
    "SELECT city, window_start, window_end{more}, SUM(fare) AS s, AVG(fare) AS a FROM TABLE("
    "TUMBLE(TABLE trips, DESCRIPTOR({time}), INTERVAL '1' HOUR)) "
    "GROUP BY city, window_start, window_end{more}"
)
RANKED = (
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    "ORDER BY s DESC, city) AS rn FROM ({})) WHERE rn <= 2 ORDER BY window_end DESC, rn LIMIT 40"
)
PLAIN = {name: WINDOWS.format(more="", time=name) for name in ("ts", "tz")}
QUERIES = {
    "ordered": f"{PLAIN['ts']} ORDER BY a DESC, s, window_end, city NULLS LAST LIMIT 30",
    "ranked": RANKED.format(PLAIN["ts"]),
    "instants": f"{PLAIN['tz']} ORDER BY window_end, city",
    "literal": f"SELECT * FROM ({PLAIN['ts']}) WHERE window_end > TIMESTAMP '2024-03-30 07:00:00' "
    "AND window_start < TIMESTAMP '2024-04-02 22:00:00' ORDER BY s, window_end, city",
}


@pytest.fixture
def trips(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    draw = random.Random(5)
    times = [START_US + draw.randrange(120 * 4) * HOUR_US // 4 for _ in range(2_000)]
    rows = {
        "ts": pa.array(times, pa.timestamp("us")),
        "tz": pa.array(times, pa.timestamp("us", "UTC")),
        "city": pa.array(draw.choices(["a", "b", "c", None], k=len(times)), pa.string()),
        "fare": pa.array([draw.randrange(-50, 50) for _ in times], pa.int32()),
    }
    (tmp_path / "trips").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "trips" / "rows.parquet")
    fresh_session.execute(
        f"CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'trips'}')"
    )
    return fresh_session


def _rows(session: sqlwin.Session, sql: str) -> list[dict[str, object]]:
    (result,) = session.execute(sql)
    return list(result.to_arrow().to_pylist())


@pytest.mark.long
@pytest.mark.parametrize("zone", ["UTC", pytest.param("Europe/Berlin", marks=pytest.mark.long)])
def test_they_are_ordered_ranked_and_narrowed_as_spark_does(
    trips: sqlwin.Session, tmp_path: Path, zone: str
) -> None:
    trips.execute(f"SET 'table.local-time-zone' = '{zone}'")
    for time, sql in PLAIN.items():
        path = tmp_path / f"m_{time}"
        trips.execute(f"CREATE MATERIALIZED TABLE m_{time} WITH ('path' = '{path}') AS {sql}")
    for name, sql in QUERIES.items():
        assert "in process" in str(trips.execute(f"EXPLAIN {sql}")[0].text), name
        actual = _rows(trips, sql)
        trips.execute("SET 'sqlwin.materialized.in-process-bytes' = '0'")
        assert _rows(trips, sql) == actual, name
        trips.execute("RESET 'sqlwin.materialized.in-process-bytes'")
        trips.execute("SET 'sqlwin.materialized.rewrite' = 'false'")
        assert _rows(trips, sql) == actual, name
        trips.execute("RESET 'sqlwin.materialized.rewrite'")


@pytest.mark.long
@pytest.mark.parametrize(
    "zone",
    among(
        ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/Sao_Paulo"], slow=["UTC", "Asia/Kolkata"]
    ),
)
@pytest.mark.parametrize(
    "at", ["2024-03-30 21:30:00", "2024-03-31 02:30:00", "2024-04-01 12:00:00"]
)
def test_a_written_instant_compares_with_local_times_as_in_spark(
    trips: sqlwin.Session, tmp_path: Path, zone: str, at: str
) -> None:
    trips.execute(f"SET 'table.local-time-zone' = '{zone}'")
    for function in (">", ">=", "<", "<=", "=", "<>"):
        where = f"ts {function} TIMESTAMP_LTZ '{at}'"
        query = PLAIN["ts"].replace(" GROUP BY", f" WHERE {where} GROUP BY")
        count_sql = f"SELECT COUNT(*) AS n FROM trips WHERE {where}"
        total = query.replace("SUM(fare) AS s, AVG(fare) AS a", "COUNT(*) AS n")
        (expected,) = trips.spark.sql(
            count_sql.replace("trips", f"parquet.`{tmp_path / 'trips'}`")
        ).collect()
        assert sum(int(str(row["n"])) for row in _rows(trips, total)) == expected[0], where
