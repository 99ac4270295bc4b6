"""Results as Arrow, pandas and Polars tables, the output of `show`, and their repr."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    LongType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

import sqlwin
from runtime.errors import ExecutionError, MissingPackageError
from sqlwin.result import (
    ExplainResult,
    InsertResult,
    MessageResult,
    OpenStream,
    RowsResult,
    StreamedRows,
    TableResult,
)
from sqlwin.result.spark import SparkRows

TYPES = """
    SELECT CAST(1.50 AS DECIMAL(38, 10)) AS d, TIMESTAMP_LTZ '2024-05-01 12:00:00.000001' AS at,
      TIMESTAMP_NTZ '2024-05-01 12:00:00' AS wall, DATE '2024-05-01' AS day,
      array(TIMESTAMP_LTZ '2024-05-01 12:00:00') AS many, map('a', 1) AS m,
      named_struct('x', X'0F') AS s, INTERVAL '3' SECOND AS lasts, INTERVAL '3' MONTH AS months,
      CAST(NULL AS INT) AS i, 9007199254740993 AS l
"""


class Ended:
    """Starts a stream that has emitted tables, and that has ended or not."""

    def __init__(self, *tables: pa.Table) -> None:
        self.tables = tables

    def __call__(self, take: Any) -> Ended:
        for table in self.tables:
            take(table)
        return self

    def wait(self, seconds: float) -> bool:
        return True

    def stop(self, *, at_once: bool) -> None:
        assert at_once


def stream(*tables: pa.Table, is_bounded: bool) -> RowsResult:
    """Return a stream of one LONG column `n`."""
    frame: Any = SimpleNamespace(
        columns=["n"],
        schema=StructType([StructField("n", LongType())]),
        sparkSession=SimpleNamespace(conf=SimpleNamespace(get=lambda key: "UTC")),
    )
    opened = OpenStream(Ended(*tables), is_bounded, lambda: None, lambda: ("one was late",))
    return RowsResult("SELECT", StreamedRows(frame, opened))


def table(name: str = "n", *values: int | None) -> TableResult:
    return TableResult("SHOW", pa.table({name: pa.array(values, pa.int64())}))


def test_arrow_has_the_types_of_sql(fresh_session: sqlwin.Session) -> None:
    fresh_session.execute("SET 'table.local-time-zone' = 'America/Bogota'")
    (result,) = fresh_session.execute(TYPES)
    actual = result.to_arrow()
    types = dict(zip(actual.column_names, map(str, actual.schema.types), strict=True))
    assert types == {
        "d": "decimal128(38, 10)",
        "at": "timestamp[us, tz=America/Bogota]",
        "wall": "timestamp[us]",
        "day": "date32[day]",
        "many": "list<element: timestamp[us, tz=America/Bogota] not null>",
        "m": "map<string, int32>",
        "s": "struct<x: binary not null>",
        "lasts": "duration[us]",
        "months": "string",
        "i": "int32",
        "l": "int64",
    }
    (row,) = actual.to_pylist()
    at = datetime(2024, 5, 1, 17, tzinfo=UTC)
    assert row["d"] == Decimal("1.5") and row["day"] == date(2024, 5, 1)
    assert row["at"] == at.replace(microsecond=1) and row["many"] == [at]
    assert row["wall"] == datetime.fromisoformat("2024-05-01T12:00") and row["lasts"] == timedelta(
        seconds=3
    )
    assert row["l"] == 9007199254740993 and row["i"] is None


def test_all_roads_to_arrow_give_one_schema(fresh_session: sqlwin.Session) -> None:
    fresh_session.execute("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    query = "SELECT id, now() AS at FROM range(0, 300000, 1, 3)"
    (large,) = fresh_session.execute(query)
    (none,) = fresh_session.execute(f"{query} WHERE id < 0")
    actual = large.to_arrow()
    assert actual.num_rows == 300_000 and actual.column("id").to_pylist()[-1] == 299_999
    assert actual.schema == none.to_arrow().schema == large.to_arrow(limit=5).schema
    assert large.to_arrow(limit=5).num_rows == 5


def test_pandas_keeps_whole_numbers_decimals_and_zones(fresh_session: sqlwin.Session) -> None:
    (result,) = fresh_session.execute(f"{TYPES} UNION ALL SELECT * FROM ({TYPES})")
    actual = result.to_pandas()
    assert str(actual.dtypes["at"]) == "datetime64[us, UTC]"
    assert str(actual.dtypes["i"]) == "Int32" and str(actual.dtypes["l"]) == "int64"
    assert actual["i"].isna().all() and list(actual["l"]) == [9007199254740993] * 2
    assert actual["m"][0] == {"a": 1} and actual["d"][0] == Decimal("1.5")


def test_polars_has_the_same_rows(fresh_session: sqlwin.Session) -> None:
    (result,) = fresh_session.execute(TYPES)
    actual = result.to_polars()
    assert str(actual.schema["d"]) == "Decimal(precision=38, scale=10)"
    assert str(actual.schema["at"]) == "Datetime(time_unit='us', time_zone='UTC')"
    assert actual["l"][0] == 9007199254740993 and actual["at"][0] == datetime(
        2024, 5, 1, 12, 0, 0, 1, tzinfo=UTC
    )


def test_whole_numbers_with_nulls_stay_whole_in_pandas() -> None:
    actual = TableResult(
        "SHOW", pa.Table.from_arrays([pa.array([2**60 + 1, None])] * 2, ["n", "n"])
    ).to_pandas()
    assert [str(type_) for type_ in actual.dtypes] == ["Int64", "Int64"]
    assert actual.iloc[0, 1] == 2**60 + 1 and actual.iloc[1, 0] is pd.NA


def test_rows_about_the_session_and_messages_are_tables_too() -> None:
    assert table("n", 1, 2).to_arrow().to_pydict() == {"n": [1, 2]}
    assert MessageResult("SET", "OK").to_arrow().to_pydict() == {"result": ["OK"]}
    assert ExplainResult("EXPLAIN", "plan").to_pandas()["result"][0] == "plan"


def test_a_missing_package_is_reported_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="requires the package polars\n  pip install"):
        table().to_polars()
    assert issubclass(MissingPackageError, sqlwin.SqlwinError)


def test_polars_refuses_duplicate_names_by_name() -> None:
    result = TableResult("SHOW", pa.Table.from_arrays([pa.array([1])] * 2, ["n", "n"]))
    with pytest.raises(ExecutionError, match="two columns are named `n`"):
        result.to_polars()


def test_a_stream_is_collected_whole_or_up_to_a_limit() -> None:
    parts = [pa.table({"n": [1, 2]}), pa.table({"n": pa.array([3, None], pa.int32())})]
    assert stream(*parts, is_bounded=True).to_arrow().to_pydict() == {"n": [1, 2, 3, None]}
    assert stream(is_bounded=True).to_arrow().schema == pa.schema([("n", pa.int64())])
    live = stream(*parts, is_bounded=False)
    assert live.to_arrow(limit=3).to_pydict() == {"n": [1, 2, 3]}
    with pytest.raises(
        ExecutionError, match=r"unbounded\n  use a limit, such as to_arrow\(limit=1000\)"
    ):
        live.to_pandas()


def test_show_prints_a_table_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    table("n", 1, 2, 3).show(max_rows=2)
    out = capsys.readouterr().out
    assert out == "n\n─\n1\n2\n… more rows: use show(max_rows=None)\n"
    stream(pa.table({"n": [1, 2]}), is_bounded=False).show(1)
    out = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in out] == ["n", "────", "1", "note: one was late"]
    MessageResult("SET", "OK").show()
    assert capsys.readouterr().out == "OK\n"


def test_reprs_are_one_short_line(fresh_session: sqlwin.Session) -> None:
    columns = ", ".join(f"{i} AS c{i}" for i in range(10))
    (query,) = fresh_session.execute(f"SELECT {columns}")
    named = ", ".join(f"c{i} int" for i in range(8))
    assert repr(query) == f"<Result of query: {named}, and 2 more columns>"
    assert repr(table("n", 1)) == "<Result of table: n string; 1 row>"
    assert repr(stream(is_bounded=False)) == "<Result of stream: n bigint>"
    assert repr(MessageResult("SET", "OK")) == "<Result of ok: OK>"
    explained = ExplainResult("EXPLAIN", "== Plan ==\nScan\n")
    assert repr(explained) == "<Result of explain: == Plan == ...>"
    fresh_session.execute("CREATE VIEW v AS SELECT 1 AS x")
    assert repr(fresh_session) == "<sqlwin Session on Spark local[2], 1 table>"
    assert repr(fresh_session.streams) == "<no streams>"


def test_an_attribute_of_other_results_is_one_clear_error() -> None:
    outcome = InsertResult("INSERT", "INSERT INTO t: 3 rows", 3)
    assert (outcome.row_count, outcome.stream, outcome.query) == (3, None, None)
    with pytest.raises(sqlwin.SqlwinError) as raised:
        outcome.dataframe  # noqa: B018
    assert str(raised.value) == (
        "the result has no attribute `dataframe`: its kind is `insert`\n"
        "  results of queries have it"
    )
    for name in ("text", "document", "stream", "query", "row_count", "dataframe", "data"):
        assert not hasattr(table(), name)
        assert getattr(table(), name, None) is None
    assert hasattr(ExplainResult("EXPLAIN", "plan"), "text")
    with pytest.raises(AttributeError, match="no attribute `tabel`"):
        table().tabel  # type: ignore[attr-defined]  # noqa: B018


def test_a_result_is_one_of_a_union() -> None:
    for result in (table(), MessageResult("SET", "OK"), stream(is_bounded=True)):
        assert isinstance(result, sqlwin.Result)


def test_a_stream_of_a_type_that_arrow_lacks_is_text() -> None:
    months = stream(pa.table({"n": ["INTERVAL '1' MONTH"]}), is_bounded=True)
    fields = [StructField("n", YearMonthIntervalType())]
    months.data.frame.schema = StructType(fields)  # type: ignore[attr-defined]
    assert months.to_arrow().to_pydict() == {"n": ["INTERVAL '1' MONTH"]}


def test_the_row_kind_of_a_stream_is_not_a_column_of_that_name() -> None:
    rows = stream(is_bounded=True).data
    assert isinstance(rows, StreamedRows)
    for name, place, shown in (("$row_kind", 0, "op"), ("op", None, "op")):
        changed = replace(
            rows,
            frame=SimpleNamespace(schema=StructType([StructField(name, StringType())])),  # type: ignore[arg-type]
        )
        assert (changed.kind_place, changed.columns[0].name) == (place, shown)


WINDOWS = """
    SELECT k, MAX(at) AS last, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at),
      INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end
"""


@pytest.mark.long
def test_all_rows_have_one_protocol(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    instants = pa.array([datetime(2024, 5, 1, 12, i, tzinfo=UTC) for i in range(3)])
    pq.write_table(
        pa.table({"k": ["a", "b", None], "at": instants.cast(pa.timestamp("us", "UTC"))}),
        tmp_path / "1.parquet",
    )
    fresh_session.execute(f"""
        SET 'table.local-time-zone' = 'Asia/Tokyo';
        CREATE TABLE t (k STRING, at TIMESTAMP_LTZ(6), WATERMARK FOR at AS at) WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet');
    """)
    batch = fresh_session.execute(WINDOWS)
    by_spark = fresh_session.execute("SELECT id, now() AS at FROM range(0, 300000, 1, 3)")
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    streamed = fresh_session.execute(WINDOWS)
    assert [rows.arrow is not None for rows in map(spark_rows, (batch, by_spark))] == [True, False]
    for (result,), kind in (
        (batch, SparkRows),
        (by_spark, SparkRows),
        (streamed, StreamedRows),
    ):
        assert isinstance(result, RowsResult) and type(result.data) is kind
        rows = result.data
        batches = list(rows.batches())
        assert [column.name for column in rows.columns] == rows.schema.names
        assert all(part.schema == rows.schema for part in batches)
        assert "Asia/Tokyo" in str(rows.schema) and sum(part.num_rows for part in batches)
        assert sum(part.num_rows for part in rows.batches(2)) == 2
        assert rows.dataframe().isStreaming is (kind is StreamedRows)
    assert batch[0].to_arrow().schema.types == streamed[0].to_arrow().schema.types


def spark_rows(results: list[sqlwin.Result]) -> SparkRows:
    (result,) = results
    assert isinstance(result, RowsResult) and isinstance(result.data, SparkRows)
    return result.data
