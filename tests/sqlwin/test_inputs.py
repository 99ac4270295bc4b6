"""Python data under a name in SQL: registered, and as notebook variables."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from sqlwin import inputs
from sqlwin.inputs import can_be_rows, dataframe_of

ROWS = [{"k": "a", "v": 1}, {"k": None, "v": 2}]
TABLE = pa.table({"k": ["a", None], "v": [1, 2]})
KINDS: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy polars": lambda: pl.DataFrame(ROWS).lazy(),
    "arrow": lambda: TABLE,
    "record batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(),
    "dicts": lambda: ROWS,
    "stream of another library": lambda: _Exporter(),
}
OTHERS = [
    set(),
    {"k": ["a"]},
    5,
    None,
    [],
    [1],
    [{"a": 1}, 2],
    np.zeros(3),
    pa.array([1]),
    pa.chunked_array([[1]]),
    pl.Series("a", [1]),
    pd.Series([1]),
    pd.DataFrame,
    object(),
    iter(ROWS),
]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


class _Exporter:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.variants(2)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind_are_registered(fresh_session: sqlwin.Session, kind: str) -> None:
    fresh_session.register("t", KINDS[kind]())
    rows = fresh_session.sql("SELECT k, v FROM t ORDER BY v").collect()
    assert [tuple(row) for row in rows] == [("a", 1), (None, 2)]


@pytest.mark.parametrize("data", OTHERS, ids=lambda data: type(data).__name__)
def test_anything_else_is_refused_at_once(session: sqlwin.Session, data: object) -> None:
    with pytest.raises(TypeError, match="`t` must be a Spark, pandas or Polars DataFrame"):
        session.register("t", data)


@pytest.mark.long
def test_files_are_registered_and_read_by_each_query(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    times = pa.array([at("2026-01-01"), at("2026-01-02")], pa.timestamp("us"))
    path = tmp_path / "it's.parquet"
    pq.write_table(pa.table({"at": times}), path)
    for source in (path, str(path), f"{tmp_path}/*.parquet"):
        fresh_session.register("files", source, time_column="at")
        assert fresh_session.sql("SELECT COUNT(*) FROM files").first() == (2,)
    assert "LocalWindowAggregate" in fresh_session.explain(
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE files, DESCRIPTOR(at), "
        "INTERVAL '1' DAY)) GROUP BY window_start, window_end"
    )
    with pytest.raises(sqlwin.SqlwinError, match="nope"):
        fresh_session.register("files", path, time_column="nope")
    with pytest.raises(sqlwin.SqlwinError, match=r"nowhere\.parquet"):
        fresh_session.register("files", f"{tmp_path}/nowhere.parquet")


def test_wall_clock_times_keep_their_values_and_instants_too(spark: SparkSession) -> None:
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    wall = at("2026-03-29 02:30")  # skipped by the clocks of Berlin
    instant = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        frame = dataframe_of(spark, [{"wall": wall, "at": instant}], "t")
        assert frame.schema.simpleString() == "struct<wall:timestamp_ntz,at:timestamp>"
        row = frame.selectExpr("CAST(wall AS STRING)", "unix_micros(at)").first()
        assert row == ("2026-03-29 02:30:00", instant.timestamp() * 1_000_000)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_times_are_cut_off_below_a_microsecond_also_before_1970(spark: SparkSession) -> None:
    ns = pa.array([-1, 1_999, None], pa.timestamp("ns"))
    rows = dataframe_of(spark, pa.table({"at": ns}), "t").collect()
    epoch = at("1970-01-01")
    us = timedelta(microseconds=1)
    assert [row.at for row in rows] == [epoch - us, epoch + us, None]


@pytest.mark.parametrize(
    ("type_", "value", "sql", "shown"),
    [
        (pa.uint8(), 255, "smallint", 255),
        (pa.uint32(), 2**32 - 1, "bigint", 2**32 - 1),
        (pa.uint64(), 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
        (pa.large_string(), "x", "string", "x"),
        (pa.string_view(), "x", "string", "x"),
        (pa.dictionary(pa.int8(), pa.string()), "x", "string", "x"),
        (pa.list_(pa.large_string()), ["x", None], "array<string>", ["x", None]),
        (pa.struct([("u", pa.uint8())]), {"u": 1}, "struct<u:smallint>", (1,)),
        (pa.duration("ns"), timedelta(seconds=1), "interval day to second", timedelta(seconds=1)),
        (pa.null(), None, "void", None),
    ],
    ids=str,
)
def test_types_that_spark_lacks_become_wider_types(
    spark: SparkSession, type_: pa.DataType, value: object, sql: str, shown: object
) -> None:
    frame = dataframe_of(spark, pa.table({"v": pa.array([value], type_)}), "t")
    assert frame.schema["v"].dataType.simpleString() == sql
    assert frame.first() == (shown,)


def test_run_ends_and_negative_scales_are_converted(spark: SparkSession) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["a", None]))
    hundreds = pa.array([Decimal(1500), None], pa.decimal128(10, -2))
    frame = dataframe_of(spark, pa.table({"r": runs, "d": hundreds}), "t")
    assert frame.schema.simpleString() == "struct<r:string,d:decimal(12,0)>"
    assert [tuple(row) for row in frame.collect()] == [("a", Decimal(1500)), (None, None)]


def test_named_levels_of_an_index_are_columns(spark: SparkSession) -> None:
    index = pd.DatetimeIndex(["2026-01-01"], name="at")
    frame = dataframe_of(spark, pd.DataFrame({"v": [1]}, index=index), "t")
    assert frame.columns == ["at", "v"]
    assert dataframe_of(spark, pd.DataFrame({"v": [1]}, index=[7]), "t").columns == ["v"]


def test_keys_of_all_dicts_are_columns(spark: SparkSession) -> None:
    rows = dataframe_of(spark, [{"a": 1}, {"b": "x"}, {"a": 2.5}], "t").collect()
    assert [tuple(row) for row in rows] == [(1.0, None), (None, "x"), (2.5, None)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([{"v": 1}, {"v": "x"}], "column `v` of `t`"),
        ([{"v": 2**70}], "column `v` of `t`"),
        (pd.DataFrame({"v": [1, "x"]}), "column `v` of `t`"),
        (pd.DataFrame({"v": pd.period_range("2026-01", "2026-02", freq="M")}), "column `v` of `t`"),
        (pd.DataFrame([[1, 2]], columns=["a", "A"]), "two columns named `a`"),
        (pd.DataFrame(), "`t` has 0 columns"),
        (pa.table({"v": pa.array([None], pa.month_day_nano_interval())}), "column `v` of `t`"),
        (pa.table({"v": pa.array([None], pa.decimal256(60, 2))}), "Arrow type decimal256(60, 2)"),
        (pa.table({"v": pa.array([None], pa.decimal128(38, -2))}), "Arrow type decimal128(38, -2)"),
        (pa.table({"v": pa.array([[1], None], pa.list_view(pa.int8()))}), "Arrow type list_view"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_columns_that_sql_cannot_hold_are_named(
    spark: SparkSession, data: object, message: str
) -> None:
    with pytest.raises(sqlwin.SqlwinError) as caught:
        dataframe_of(spark, data, "t")
    assert message in caught.value.message
    assert "pyspark" not in str(caught.value).lower()


@pytest.mark.parametrize("data", OTHERS, ids=lambda data: type(data).__name__)
def test_other_variables_are_no_tables(data: object) -> None:
    assert not can_be_rows(data)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Return the variables of an interactive Python."""
    variables: dict[str, object] = {}
    monkeypatch.setattr("sqlwin.session.interactive_variables", lambda: variables)
    return variables


def test_a_query_reads_a_variable(
    fresh_session: sqlwin.Session, notebook: dict[str, object]
) -> None:
    notebook["Df"] = pd.DataFrame({"v": [1, 2]})
    query = "SELECT SUM(v) FROM Df"
    assert fresh_session.sql(query).first() == (3,)
    notebook["Df"] = pl.DataFrame({"v": [5]})
    assert fresh_session.sql(query).first() == (5,), "the value of the next statement"
    lazily = fresh_session.sql(query)
    fresh_session.execute("CREATE VIEW w AS SELECT v + 1 AS v FROM Df")
    del notebook["Df"]
    assert lazily.first() == (5,)
    with pytest.raises(sqlwin.SqlwinError, match="`Df` does not exist"):
        fresh_session.sql(query)
    with pytest.raises(sqlwin.SqlwinError, match="`Df` does not exist"):
        fresh_session.sql("SELECT * FROM w")
    notebook["Df"] = ROWS
    assert sorted(row.v for row in fresh_session.sql("SELECT * FROM w").collect()) == [2, 3]


@pytest.mark.long
def test_variables_are_in_joins_windows_and_inserts(
    fresh_session: sqlwin.Session, notebook: dict[str, object]
) -> None:
    times = [at(f"2026-01-01 00:{minute:02}") for minute in (0, 5, 10)]
    notebook["df"] = pl.DataFrame({"at": times, "v": [1, 2, 3]})
    notebook["rows_here"] = [{"v": 2}]
    (result,) = fresh_session.execute("""
        SELECT window_end, SUM(df.v) AS s FROM TABLE(TUMBLE(TABLE df, DESCRIPTOR(at),
        INTERVAL '10' MINUTES)) df GROUP BY window_start, window_end ORDER BY window_end
    """)
    assert [row.s for row in result.rows] == [3, 3]
    assert fresh_session.sql("SELECT df.at FROM df JOIN rows_here AS o ON df.v = o.v").first() == (
        times[1],
    )
    fresh_session.execute("CREATE TABLE kept (v BIGINT) WITH ('connector' = 'memory')")
    fresh_session.execute("INSERT INTO kept SELECT v FROM df")
    assert fresh_session.sql("SELECT SUM(v) FROM kept").first() == (6,)
    (described,) = fresh_session.execute("DESCRIBE df")
    assert [row[0] for row in described.rows] == ["at", "v"]


def test_tables_come_before_variables(
    fresh_session: sqlwin.Session, notebook: dict[str, object]
) -> None:
    notebook["t"] = notebook["of_spark"] = notebook["c"] = [{"v": 1}]
    fresh_session.register("t", [{"v": 2}])
    fresh_session.spark.range(3, 4).toDF("v").createOrReplaceTempView("of_spark")
    assert fresh_session.sql("SELECT v FROM t").first() == (2,)
    assert fresh_session.sql("SELECT v FROM of_spark").first() == (3,)
    assert fresh_session.sql("WITH c AS (SELECT 4 AS v) SELECT v FROM c").first() == (4,)


def test_a_setting_switches_variables_off(
    fresh_session: sqlwin.Session, notebook: dict[str, object]
) -> None:
    notebook["df"] = ROWS
    fresh_session.execute("SET 'sqlwin.python-variables' = 'false'")
    with pytest.raises(sqlwin.SqlwinError, match="`df` does not exist"):
        fresh_session.sql("SELECT * FROM df")


def test_a_program_has_no_interactive_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", None)  # type: ignore[arg-type]
    monkeypatch.delattr(sys, "ps1", raising=False)
    assert inputs.interactive_variables() == {}
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "df", ROWS, raising=False)
    assert inputs.interactive_variables()["df"] is ROWS
