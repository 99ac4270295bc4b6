"""The setting 'sqlwin.executor' with Spark's driver in this process."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import sqlwin
from tests.goldens import ROOT

SETUP = f"""
CREATE TABLE flights WITH ('connector' = 'filesystem',
  'path' = '{ROOT}/queries/data/flights.parquet')
"""
HOP = """
SELECT origin, window_end, COUNT(*) AS n, COUNT(DISTINCT carrier) AS carriers
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '6' HOURS, INTERVAL '1' DAY))
WHERE sched_dep < TIMESTAMP '2013-01-03 00:00:00' GROUP BY origin, window_start, window_end
"""


@pytest.fixture
def flights_session(fresh_session: sqlwin.Session) -> sqlwin.Session:
    fresh_session.execute(SETUP)
    return fresh_session


def test_portable_and_spark_have_the_same_rows(
    flights_session: sqlwin.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(executor: str) -> Counter[tuple[object, ...]]:
        flights_session.execute(f"SET 'sqlwin.executor' = '{executor}'")
        (result,) = flights_session.execute(HOP)
        return Counter(map(tuple, result.rows))

    expected = rows("spark")
    assert "on Spark: 'sqlwin.executor' is 'spark'\n" in flights_session.explain(HOP)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Python workers were used")

    monkeypatch.setattr(DataFrame, "mapInArrow", refuse)
    assert rows("portable") == expected
    plan = flights_session.explain(HOP)
    why = "portable: one text of Spark SQL, because 'sqlwin.executor' is 'portable'"
    assert f"== Execution ==\n{why}\n\n== Spark SQL ==\nWITH slices" in plan


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (HOP.replace("COUNT(*)", "LISTAGG(DISTINCT carrier)"), "which cannot run the query: "),
        (f"EXPLAIN ANALYZE {HOP}", "which does not support EXPLAIN ANALYZE"),
        (f"CREATE MATERIALIZED TABLE m AS {HOP}", "which does not support materialized tables"),
        (f"INSERT INTO topic {HOP}", "but Python workers write tables of connector 'kafka'"),
        (
            "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), "
            "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
            "which does not support streams",
        ),
    ],
    ids=["aggregate", "analyze", "materialized", "sink", "stream"],
)
def test_what_has_no_portable_form_is_refused(
    sql: str, message: str, flights_session: sqlwin.Session
) -> None:
    flights_session.execute(
        "SET 'sqlwin.executor' = 'portable'; "
        "CREATE TEMPORARY TABLE ticks (id BIGINT, ts TIMESTAMP(3), "
        "WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' = '5'); "
        "CREATE TABLE topic (origin STRING, window_end TIMESTAMP(3), n BIGINT, carriers BIGINT) "
        "WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'h:1', "
        "'format' = 'json')"
    )
    with pytest.raises(sqlwin.SqlwinError) as caught:
        flights_session.execute(sql)
    assert caught.value.message.startswith(f"'sqlwin.executor' is 'portable', {message}")
    assert (caught.value.hint or "").endswith("SET 'sqlwin.executor' = 'auto'")


def test_a_table_that_workers_read_is_refused(
    flights_session: sqlwin.Session, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_text("2026-01-01 10:00:00 hello\n")
    flights_session.execute(f"""
        SET 'sqlwin.executor' = 'portable';
        CREATE TEMPORARY TABLE lines (ts TIMESTAMP(3), m STRING) WITH ('connector' = 'filesystem',
          'path' = '{tmp_path}/a.log', 'format' = 'text',
          'text.pattern' = '(?<ts>[0-9-]+ [0-9:]+) (?<m>.*)')
    """)
    with pytest.raises(sqlwin.SqlwinError, match="Python workers read table `lines`") as caught:
        flights_session.execute("SELECT m FROM lines")
    assert caught.value.hint == "copy it into Parquet files, or SET 'sqlwin.executor' = 'auto'"


def test_portable_queries_fill_tables(flights_session: sqlwin.Session, tmp_path: Path) -> None:
    session = flights_session
    (expected,) = session.execute(HOP)
    session.execute(f"""
        SET 'sqlwin.executor' = 'portable';
        CREATE TEMPORARY TABLE hops (origin STRING, window_end TIMESTAMP(6), n BIGINT,
          carriers BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/hops',
          'format' = 'parquet');
        INSERT INTO hops {HOP};
        EXECUTE STATEMENT SET BEGIN INSERT INTO hops {HOP}; INSERT INTO hops {HOP}; END
    """)
    (found,) = session.execute("SELECT * FROM hops")
    once = Counter(map(tuple, expected.rows))
    assert Counter(map(tuple, found.rows)) == once + once + once


def test_a_portable_query_fills_a_new_table(
    flights_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = flights_session
    expected = session.execute(HOP)[0].to_arrow()
    texts: list[str] = []
    run = SparkSession.sql

    def recorded(spark: SparkSession, text: str, *rest: Any, **others: Any) -> DataFrame:
        texts.append(text)
        return run(spark, text, *rest, **others)

    monkeypatch.setattr(SparkSession, "sql", recorded)
    created = session.execute(f"""
        SET 'sqlwin.executor' = 'portable';
        CREATE TEMPORARY TABLE hops WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/hops',
          'format' = 'parquet') AS {HOP}
    """)[-1]
    assert any(text.startswith("WITH slices") for text in texts), texts
    assert created.row_count == expected.num_rows > 0
    found = session.execute("SELECT * FROM hops")[0].to_arrow()
    assert found.schema.types == expected.schema.types
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, expected.to_pylist()))


def test_portable_times_that_the_time_zone_skips_stay_in_their_windows(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    # clocks in New York go from 02:00 to 03:00
    times = [datetime.fromisoformat(f"2013-03-10T0{hour}:30:00") for hour in (1, 2, 3)]
    pq.write_table(pa.table({"ts": pa.array(times, pa.timestamp("us"))}), tmp_path / "t.parquet")
    fresh_session.execute(f"""
        SET 'sqlwin.executor' = 'portable'; SET 'table.local-time-zone' = 'America/New_York';
        CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t.parquet')
    """)
    (result,) = fresh_session.execute(
        "SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '1' HOUR)) GROUP BY window_start, window_end ORDER BY window_start"
    )
    hours = [datetime.fromisoformat(f"2013-03-10T0{hour}:00:00") for hour in (1, 2, 3, 4)]
    assert [tuple(row) for row in result.rows] == [
        (start, end, 1) for start, end in pairwise(hours)
    ]
