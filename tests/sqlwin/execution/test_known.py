"""Queries that are planned and answered without a call to Java."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.java_gateway import GatewayClient

import sqlwin
from runtime.errors import SqlwinError
from runtime.spark.settings import settings_of
from sqlwin.result.in_process import InProcessRows

HOURS = "TABLE(TUMBLE(TABLE rides, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
WINDOWS = (
    f"SELECT city, window_end, SUM(fare) AS s, COUNT(*) AS n FROM {HOURS} WHERE city <> 'b' "
    "GROUP BY city, window_start, window_end HAVING SUM(fare) > 1"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("known")


@pytest.fixture(scope="module")
def rides(session: sqlwin.Session, path: Path) -> Iterator[sqlwin.Session]:
    """Create the table `rides` of two files, and the materialized table `m` over one of them."""
    base = path / "rides"
    base.mkdir()
    rows = {
        "ts": pa.array([hour // 2 * 3_600_000_000 for hour in range(8)], pa.timestamp("us")),
        "city": ["a", "b", "a", "c"] * 2,
        "fare": pa.array(range(8), pa.int32()),
    }
    pq.write_table(pa.table(rows).slice(0, 5), base / "0.parquet")
    session.execute(
        f"CREATE TABLE rides WITH ('connector' = 'filesystem', 'path' = '{base}');"
        f"CREATE MATERIALIZED TABLE m WITH ('path' = '{path}/m') AS "
        "SELECT city, window_start, window_end, SUM(fare) AS s, COUNT(*) AS n FROM TABLE(TUMBLE("
        "TABLE rides, DESCRIPTOR(ts), INTERVAL '30' MINUTE)) GROUP BY city, window_start, window_end"
    )
    pq.write_table(pa.table(rows).slice(5), base / "1.parquet")
    yield session
    session.execute("DROP MATERIALIZED TABLE IF EXISTS m; DROP TABLE IF EXISTS rides")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the calls to Java from here on."""
    actual: list[str] = []
    send = GatewayClient.send_command

    def sent(self: GatewayClient, command: str, *args: object, **options: object) -> object:
        # Python's garbage collection releases Java objects at any time
        if not command.startswith("m\n"):
            actual.append(command)
        return send(self, command, *args, **options)

    monkeypatch.setattr(GatewayClient, "send_command", sent)
    return actual


def rows(session: sqlwin.Session, sql: str) -> list[tuple[object, ...]]:
    (result,) = session.execute(sql)
    assert isinstance(result.data, InProcessRows)
    return sorted(tuple(row.values()) for row in result.to_arrow().to_pylist())


@pytest.mark.parametrize("sql", [WINDOWS, "SELECT * FROM m"], ids=["windows", "view"])
def test_queries_over_slices_call_java_only_for_settings(
    rides: sqlwin.Session, calls: list[str], sql: str
) -> None:
    first = rows(rides, sql)
    calls.clear()
    assert rows(rides, sql) == first
    assert len(calls) == 2 and "getAllAsJava" in calls[0]
    # Spark gives the same schema, and its DataFrame the same rows
    (in_process,) = rides.execute(sql)
    assert sorted(map(tuple, in_process.dataframe.collect())) == first


def test_settings_that_change_the_analyser_call_java_again(
    rides: sqlwin.Session, calls: list[str]
) -> None:
    expected = rows(rides, WINDOWS)
    # settings that may affect Spark's analyser
    rides.execute("SET 'spark.sql.decimalOperations.allowPrecisionLoss' = 'true'")
    calls.clear()
    assert rows(rides, WINDOWS) == expected and len(calls) > 20
    rides.execute("RESET 'spark.sql.decimalOperations.allowPrecisionLoss'")
    calls.clear()
    assert rows(rides, WINDOWS) == expected
    # settings that sqlwin makes itself, for files in a Windows encoding, CSV and JSON
    rides.spark.conf.set("spark.sql.legacy.javaCharsets", "true")
    rides.spark.conf.set("spark.sql.csv.filterPushdown.enabled", "false")
    rides.spark.conf.set("spark.sql.json.filterPushdown.enabled", "false")
    rows(rides, WINDOWS)
    calls.clear()
    assert rows(rides, WINDOWS) == expected and len(calls) == 2
    rides.spark.conf.unset("spark.sql.legacy.javaCharsets")
    # rows that Spark reads
    rides.execute("SET 'sqlwin.materialized.rewrite' = 'false'")
    try:
        (result,) = rides.execute(WINDOWS)
        assert not isinstance(result.data, InProcessRows)
        assert sorted(tuple(row.values()) for row in result.to_arrow().to_pylist()) == expected
    finally:
        rides.execute("RESET 'sqlwin.materialized.rewrite'")


def test_unchanged_settings_are_fetched_once(session: sqlwin.Session, calls: list[str]) -> None:
    key, spark = "spark.sql.shuffle.partitions", session.spark
    before = settings_of(spark).get(key)
    calls.clear()
    assert [settings_of(spark).get(key) for _ in range(3)] == [before] * 3
    assert len(calls) == 6
    spark.conf.set(key, "77")
    assert settings_of(spark).get(key) == "77"
    assert {key, "spark.sql.session.timeZone"} <= (settings_of(spark).keys or set())
    spark.conf.set(key, before)
    assert settings_of(spark).get(key) == before
    assert settings_of(spark).get("spark.sqlwin.nothing", "5") == "5"


def test_errors_are_the_same_without_java(rides: sqlwin.Session) -> None:
    with pytest.raises(SqlwinError, match="nope") as error:
        rides.execute(WINDOWS.replace("SUM(fare) AS s", "SUM(nope) AS s"))
    assert error.value.position is not None


def test_queries_read_the_current_tables(rides: sqlwin.Session, path: Path) -> None:
    before = rows(rides, WINDOWS)
    more = pq.read_table(path / "rides" / "0.parquet")
    pq.write_table(more, path / "rides" / "2.parquet")
    assert rows(rides, WINDOWS) != before
    rides.execute("CREATE VIEW some AS SELECT * FROM rides WHERE city <> 'x'")
    assert rows(rides, WINDOWS.replace("TABLE rides", "TABLE some")) == rows(rides, WINDOWS)
    rides.execute("DROP VIEW some; DROP MATERIALIZED TABLE m")
    (result,) = rides.execute(WINDOWS)
    assert not isinstance(result.data, InProcessRows)
