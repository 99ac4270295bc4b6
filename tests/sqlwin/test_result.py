"""Rows of results as Python objects."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import sqlwin
from runtime.frames.arrow_tables import collect_arrow
from sqlwin.execution.streams.results import by_window
from sqlwin.result import OpenStream, RowsResult, StreamedRows, TableResult
from sqlwin.result.spark import SparkRows


@pytest.fixture
def _in_bogota(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/Bogota")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_bogota")
def test_instants_of_a_stream_are_datetimes_of_the_session_s_zone() -> None:
    instant = datetime(2024, 5, 1, 12, tzinfo=UTC)
    wall_clock = instant.replace(tzinfo=None)
    table = pa.table(
        {
            "at": pa.array([instant, None], pa.timestamp("us", "UTC")),
            "many": pa.array([[instant], None], pa.list_(pa.timestamp("us", "UTC"))),
            "plain": pa.array([wall_clock, None], pa.timestamp("us")),
        }
    )

    opened = OpenStream(_Ended(table), True, str, tuple)
    fields = [
        StructField("at", TimestampType()),
        StructField("many", ArrayType(TimestampType())),
        StructField("plain", TimestampNTZType()),
    ]
    result = RowsResult("", StreamedRows(_frame(fields), opened, "America/Chicago"))
    first, second = (tuple(row) for row in result.rows)
    assert first == (instant, [instant], wall_clock)
    assert first[0].utcoffset() == first[1][0].utcoffset() == timedelta(hours=-5)
    assert second == (None, None, None)


def test_columns_with_the_same_name_are_all_returned() -> None:
    table = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["x", "x"])
    frame = _frame([StructField("x", LongType()), StructField("x", LongType())])
    opened = OpenStream(_Ended(table), True, str, tuple)
    stream = RowsResult("", StreamedRows(frame, opened, "UTC"))
    for result in (stream, TableResult("", table)):
        assert [tuple(row) for row in result.rows] == [(1, 3), (2, 4)]
        assert list(result.rows[0].__fields__) == ["x", "x"]


def test_rows_of_a_stream_are_in_order_of_their_windows() -> None:
    ends = pa.array([20, 10, 10], pa.timestamp("us"))
    table = pa.table(
        [pa.array([1, 3, 2]), ends, pa.array([0, 0, 0])], names=["x", "window_end", "x"]
    )
    assert by_window(table).column(0).to_pylist() == [2, 3, 1]


def _frame(fields: list[StructField]) -> Any:
    return SimpleNamespace(schema=StructType(fields))


class _Ended:
    """Starts a stream that has emitted a table and ended."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __call__(self, take: object) -> _Ended:
        assert callable(take)
        take(self._table)
        return self

    def wait(self, seconds: float) -> bool:
        return True

    def stop(self, *, at_once: bool) -> None:
        assert at_once


class _WithoutPlan:
    """A DataFrame whose plan has no maximum number of rows."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    def __getattr__(self, name: str) -> Any:
        if name == "_jdf":
            raise AttributeError(name)
        return getattr(self._frame, name)


def test_rows_are_fetched_without_a_maximum_from_spark(spark: SparkSession) -> None:
    frame: Any = _WithoutPlan(spark.range(2).withColumnRenamed("id", "n"))
    result = RowsResult("", SparkRows(frame, "UTC"))
    batches = list(result.batches())
    assert [value for batch in batches for value in batch["n"].to_pylist()] == [0, 1]


@pytest.mark.parametrize("n_rows", [3, 150_000], ids=["at once", "fetched from tasks"])
def test_a_struct_that_is_null_has_no_fields(spark: SparkSession, n_rows: int) -> None:
    # Spark calls the field NOT NULL, which PySpark's toArrow() takes for true
    struct = "IF(id > 0, named_struct('n', id), NULL)"
    frame = spark.sql(f"SELECT {struct} AS s, ARRAY({struct}) AS s FROM range({n_rows})")
    rows = SparkRows(frame, "UTC")
    table = pa.Table.from_batches(rows.batches(), rows.schema)
    assert table.num_rows == n_rows
    assert table.column(0).to_pylist()[:2] == [None, {"n": 1}]
    assert table.column(1).to_pylist()[:2] == [[None], [{"n": 1}]]


@pytest.mark.parametrize(
    "n_rows",
    [3, pytest.param(150_000, marks=pytest.mark.long)],
    ids=["at once", "fetched from tasks"],
)
def test_a_struct_may_repeat_a_field_name(spark: SparkSession, n_rows: int) -> None:
    # PySpark refuses to convert such structs to Arrow, and Arrow casts their fields by name
    struct = "named_struct('n', id, 'n', timestamp_seconds(id))"
    frame = spark.sql(f"SELECT {struct} AS s, ARRAY({struct}) AS l FROM range({n_rows})")
    result = RowsResult("", SparkRows(frame, "Europe/Berlin"))
    first = result.rows[1]
    at = datetime(1970, 1, 1, 1, 0, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    assert first == ((1, at), [(1, at)])
    assert list(first[0].__fields__) == ["n", "n"]
    assert len(result.rows) == n_rows
    assert collect_arrow(frame.limit(1)).column(0).type.num_fields == 2


def test_tables_keep_structs_that_repeat_a_field_name(fresh_session: sqlwin.Session) -> None:
    made = "CREATE TABLE stored WITH ('connector' = 'memory') AS SELECT"
    fresh_session.execute(f"{made} named_struct('n', 1, 'n', 'b') AS s")
    (stored,) = fresh_session.execute("SELECT * FROM stored")
    fresh_session.register("given", stored.to_arrow())
    (given,) = fresh_session.execute("SELECT * FROM given")
    assert [*stored.rows, *given.rows] == [((1, "b"),)] * 2


def test_intervals_of_months_are_texts_on_any_level(session: sqlwin.Session) -> None:
    month = "INTERVAL '1' MONTH"
    query = f"SELECT array({month}) AS a, map('k', named_struct('m', {month})) AS b"
    table = session.execute(query)[-1].to_arrow()
    assert table.to_pylist() == [{"a": [month], "b": [("k", {"m": month})]}]
