"""Ibis' windows on sqlwin: the rows of Ibis' PySpark backend, and Ibis' own tests."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import sqlwin
from tests.goldens import ROOT
from tests.observing import wait_until

ibis = pytest.importorskip("ibis", reason="Ibis is not installed")
from ibis import _  # noqa: E402

from sqlwin.ibis import Backend  # noqa: E402

ROWS = """
    SELECT IF(id % 2 = 0, 'a', NULL) AS k, CAST(id AS DOUBLE) AS x,
      IF(id = 7, NULL, TIMESTAMP '1969-12-31 23:30:00' + make_dt_interval(0, 0, id)) AS ts
    FROM range(100)
"""


def quarters(table: Any) -> Any:
    return (
        table.window_by(table.ts)
        .tumble(size=ibis.interval(minutes=15))
        .agg(by=["k"], n=_.count(), s=_.x.sum())
    )


def half_hours(table: Any) -> Any:
    late = table.filter(table.x > 10).mutate(y=_.x * 2)
    return (
        late.window_by(late.ts)
        .hop(size=ibis.interval(minutes=30), slide=ibis.interval(minutes=15))
        .agg(n=_.count(), m=_.y.max())
    )


def several(table: Any) -> Any:
    return (
        table.window_by(table.ts)
        .tumble(size=ibis.interval(hours=1))
        .group_by("k")
        .agg(a=_.x.mean(), sd=_.x.std(), u=_.x.nunique(), md=_.x.median(), f=_.x.sum(where=_.x > 9))
    )


def of_expressions(table: Any) -> Any:
    hours = table.window_by(table.ts).tumble(size=ibis.interval(hours=1))
    return hours.agg(by=[(table.x % 3).name("rest")], n=_.count())


def above(table: Any) -> Any:
    full = quarters(table).filter(_.n > 5).mutate(d=_.window_end - _.window_start)
    return full.join(table, "k").group_by("window_start").agg(n=_.count())


# -- without Spark ---------------------------------------------------------------------------------


def compiled(table: Any, expression: Callable[[Any], Any]) -> str:
    return str(Backend().compile(expression(table)))


def test_windows_compile_to_window_table_functions() -> None:
    table = ibis.table({"k": "string", "x": "float64", "ts": "timestamp"}, name="t")
    assert "TABLE(TUMBLE(TABLE `t`, DESCRIPTOR(`ts`), INTERVAL '15' MINUTE)) AS `t0`" in (
        compiled(table, quarters)
    )
    of_query = compiled(table, half_hours)
    assert "TABLE(HOP(TABLE (SELECT " in of_query
    assert "DESCRIPTOR(`ts`), INTERVAL '15' MINUTE, INTERVAL '30' MINUTE)" in of_query
    # a table of Spark with a database
    namespace = ibis.table({"ts": "timestamp"}, name="t", database="d")
    hour = ibis.interval(hours=1)
    by_offset = compiled(
        namespace, lambda t: t.window_by(t.ts).tumble(size=hour, offset=hour).agg(n=_.count())
    )
    assert "TABLE `d`.`t`, DESCRIPTOR(`ts`), INTERVAL '1' HOUR, INTERVAL '1' HOUR)" in by_offset


def test_the_time_must_be_a_column() -> None:
    table = ibis.table({"ts": "timestamp"}, name="t")
    shifted = table.window_by(table.ts + ibis.interval(hours=1))
    windows = shifted.tumble(size=ibis.interval(hours=1)).agg(n=_.count())
    with pytest.raises(ibis.common.exceptions.UnsupportedOperationError, match="needs a column"):
        Backend().compile(windows)


def test_the_entry_point_names_the_backend() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["ibis.backends"]["sqlwin"] == Backend.__module__


# -- on Spark --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_spark(spark: SparkSession) -> SparkSession:
    """Provide a Spark session whose settings Ibis may change."""
    new_session = spark.newSession()
    new_session.conf.set("spark.sql.shuffle.partitions", "3")
    return new_session


@pytest.fixture(scope="module")
def connection(own_spark: SparkSession) -> Iterator[Any]:
    session = sqlwin.connect(own_spark)
    own_spark.sql(ROWS).createOrReplaceTempView("t")
    session.execute(
        f"CREATE TABLE flights WITH ('connector' = 'filesystem', "
        f"'path' = '{ROOT}/queries/data/flights.parquet')"
    )
    yield Backend().connect(session)
    session.close()


@pytest.mark.variants(1)
@pytest.mark.parametrize("expression", [quarters, half_hours, several, of_expressions, above])
def test_rows_equal_those_of_ibis_pyspark_backend(
    connection: Any, own_spark: SparkSession, expression: Callable[[Any], Any]
) -> None:
    from pandas.testing import assert_frame_equal

    def rows_on(backend: Any) -> Any:
        rows = backend.execute(expression(backend.table("t")))
        return rows.sort_values(list(rows.columns)).reset_index(drop=True)

    rows = rows_on(connection)
    assert len(rows) > 1
    assert_frame_equal(rows, rows_on(ibis.pyspark.connect(own_spark)))


def test_tables_of_the_session_are_read(connection: Any) -> None:
    assert {"flights", "t"} <= {*connection.list_tables()}
    flights = connection.table("flights")
    assert flights.schema()["sched_dep"].is_timestamp()
    size, offset = ibis.interval(days=182), ibis.interval(hours=6)
    windows = flights.window_by(flights.sched_dep).tumble(size=size, offset=offset)
    counts = windows.agg(by="origin", n=_.count())
    assert "ArrowScanLocalWindowAggregate" in connection.session.explain(connection.compile(counts))
    rows = counts.to_pyarrow().to_pylist()
    assert sum(row["n"] for row in rows) == 336776
    assert {row["window_start"].hour for row in rows} == {6}
    with pytest.raises(ibis.common.exceptions.TableNotFound, match="nowhere"):
        connection.table("nowhere")


@pytest.mark.long
def test_views_and_tables_of_ibis_are_read(connection: Any) -> None:
    view = connection.create_view("q", quarters(connection.table("t").filter(_.x < 5)))
    assert view.count().execute() == 2
    view = connection.create_view("q", connection.table("t").limit(1), overwrite=True)
    assert view.count().execute() == 1
    memory = ibis.memtable({"k": ["a", "a"], "ts": ["2024-01-01 00:01", "2024-01-01 00:16"]})
    memory = memory.mutate(ts=memory.ts.cast("timestamp"), x=1.0)
    assert connection.execute(quarters(memory).n.sum()) == 2


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["test_tumble_window_by_grouped_agg", "test_tumble_window_by_ungrouped_agg"]
)
def test_ibis_own_tests_of_windows_on_streams_pass(
    own_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from ibis.backends.pyspark.tests import test_window

    # rows as in Ibis' data, which is not installed with it: every row has a window of its own
    own_spark.sql("""
        SELECT CAST(id % 10 AS STRING) AS string_col, CAST(id AS FLOAT) AS float_col,
          TIMESTAMP '2009-01-01 00:00:00' + make_dt_interval(0, 0, 2 * id) AS timestamp_col
        FROM range(7300)
    """).coalesce(1).write.parquet(f"{tmp_path}/rows")
    schema = own_spark.read.parquet(f"{tmp_path}/rows").schema
    stream = own_spark.readStream.schema(schema).parquet(f"{tmp_path}/rows").repartition(4)
    stream.withWatermark("timestamp_col", "10 seconds").createOrReplaceTempView(
        "functional_alltypes"
    )
    streams = own_spark.streams

    def wait_for_rows(_seconds: float) -> None:
        (query,) = wait_until(lambda: streams.active)
        query.processAllAvailable()

    monkeypatch.setattr(test_window, "sleep", wait_for_rows)
    backend = Backend().connect(own_spark, mode="streaming")
    try:
        getattr(test_window, name)(backend, tmp_path)
    finally:
        for query in streams.active:
            query.stop()
        backend.disconnect()
