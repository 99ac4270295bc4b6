"""Queries answered from slices, in tasks and in this process, equal those answered from rows."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from sqlwin.result.in_process import InProcessRows
from sqlwin.session import Session
from tests.goldens import ROOT
from tests.planner.materialized.test_answers import DEFINITION, WINDOWS, query, rows
from tests.unstarted import NeedsSparkError, unstarted_spark

pytestmark = pytest.mark.long

MORE = (
    "COUNT(fare) AS i, SUM(money) AS h, LAST(fare) AS l, STDDEV_POP(x) AS s, "
    "APPROX_COUNT_DISTINCT(rider) AS p, LISTAGG(city, ',') AS t"
)
HOURS = "TABLE(HOP(TABLE trips, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '1' HOUR))"
CUBE = (
    "SELECT {}city, rider, GROUPING_ID(city, rider) AS g, window_end, SUM(fare) AS a "
    "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' DAY)) WHERE city <> 'Oslo' "
    "GROUP BY window_start, window_end, CUBE(city, rider)"
)
BY_TASKS = {"function of Spark": CUBE.format("INITCAP(city) AS c, ")}
HERE = {
    "grouping sets": CUBE.format(""),
    "shared": " UNION ALL ".join(query(w, ("city",), ["SUM(fare)"], "") for w in WINDOWS[:3]),
    "whole view": "SELECT * FROM m WHERE city = 'Rome' AND window_end > TIMESTAMP_NTZ '2026-01-31'",
    "top n": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    "ORDER BY a DESC, city) AS r FROM (SELECT city, window_start, window_end, SUM(fare) AS a "
    f"FROM {HOURS} WHERE window_end > TIMESTAMP_NTZ '2026-01-31' "
    "GROUP BY city, window_start, window_end HAVING SUM(fare) > 3)) WHERE r <= 2",
    "hop": query(WINDOWS[3], ("city",), ["SUM(fare)", "AVG(fare)", "COUNT(*)"], "city <> 'Oslo'"),
    "lists": "SELECT city, window_end, SUM(money) AS h, LAST(fare) AS l, LISTAGG(city, ',') AS t, "
    f"APPROX_COUNT_DISTINCT(rider) AS p FROM {HOURS} GROUP BY city, window_start, window_end",
    "never null": "SELECT city, window_time, COALESCE(SUM(fare), 0) AS a, COUNT(*) AS n "
    f"FROM {HOURS} GROUP BY city, window_start, window_end, window_time",
    "view": "SELECT city, window_end, a, b, n, t FROM m "
    "WHERE rider = 2 AND window_end <= TIMESTAMP_NTZ '2026-01-31 20:00:00'",
}


@pytest.fixture(scope="module")
def trips(session, tmp_path_factory):
    """Create the table `trips`; three quarters of it are in the materialized table `m`."""
    path = tmp_path_factory.mktemp("trips")
    data, base = rows(900), path / "trips"
    base.mkdir()
    pq.write_table(data.slice(0, 675), base / "0.parquet")
    session.execute(f"CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{base}')")
    definition = DEFINITION.replace("COUNT(fare) AS i", MORE)
    session.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{path}/m') AS {definition}")
    session.kept_at = path / "m"
    pq.write_table(data.slice(675), base / "1.parquet")
    yield session
    session.execute("DROP MATERIALIZED TABLE m; DROP TABLE trips")


@pytest.fixture(params=[*BY_TASKS.values(), *HERE.values()], ids=[*BY_TASKS, *HERE])
def sql(request):
    return request.param


def as_rows(result):
    return sorted(str([round(v, 9) if isinstance(v, float) else v for v in row]) for row in result)


def test_answers_from_slices_equal_those_from_rows(trips, sql):
    (explained,) = trips.execute(f"EXPLAIN {sql}")
    assert "SliceScan(table=[m]" in explained.text and "tail=[1 file]" in explained.text
    (result,) = trips.execute(sql)
    is_here = sql in HERE.values()
    assert isinstance(result.data, InProcessRows) is is_here is ("in process" in explained.text)
    answer, schema = as_rows(result.rows), result.to_arrow(limit=1).schema
    assert result.to_arrow(limit=3).num_rows == 3
    if is_here:
        assert as_rows(result.dataframe.collect()) == answer
    trips.execute("SET 'sqlwin.materialized.rewrite' = 'false'")
    try:
        (result,) = trips.execute(sql)
        assert not isinstance(result.data, InProcessRows)
        by_spark = result.to_arrow(limit=1).schema
        if "GROUPING_ID" in sql and is_here:  # never NULL, but Spark's plan does not declare it
            by_spark = by_spark.set(2, by_spark.field("g").with_nullable(False))
        assert by_spark == schema
        assert as_rows(result.rows) == answer
    finally:
        trips.execute("RESET 'sqlwin.materialized.rewrite'")


def test_a_script_that_slices_answer_starts_no_spark(trips):
    opened = f"CREATE MATERIALIZED TABLE m WITH ('path' = '{trips.kept_at}')"
    unstarted = Session(unstarted_spark(), settings={})
    message, result = unstarted.execute(f"{opened}; {HERE['hop']}")
    assert message.message.startswith("opened `m`: ")
    (expected,) = trips.execute(HERE["hop"])
    assert result.types == expected.types and result.to_arrow().schema == expected.to_arrow().schema
    assert as_rows(result.rows) == as_rows(expected.rows)
    with pytest.raises(NeedsSparkError):
        unstarted.execute(BY_TASKS["function of Spark"])
    text = unstarted.explain(HERE["hop"])
    assert "in process" in text and "SliceScan(table=[m]" in text


def test_sqlwin_run_of_such_a_script_starts_no_java(trips):
    script = f"CREATE MATERIALIZED TABLE m WITH ('path' = '{trips.kept_at}'); {HERE['hop']}"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    command = [sys.executable, "-X", "importtime", "-m", "sqlwin", "run", "-e", script]
    process = subprocess.run(command, env=env, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    (expected,) = trips.execute(HERE["hop"])
    assert len(process.stdout.splitlines()) == 1 + len(expected.rows)
    imported = {line.rpartition("|")[2].strip() for line in process.stderr.splitlines()}
    assert not imported & {"pandas.core", "runtime.connectors.kafka.connector"}
