"""INSERT assigns a query's columns to a table's."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import TableColumn, TableSpec
from sqlwin.execution.inserts import by_position
from tests.end_to_end.stream_files import write_next

TOTALS = TableSpec(
    "totals",
    "memory",
    (TableColumn("k", "string"), TableColumn("n", "bigint"), TableColumn("more", "string")),
)


@pytest.mark.parametrize("kind", [(), (ROW_KIND,)], ids=["rows", "updates"])
def test_columns_that_are_named_go_to_their_own(spark: SparkSession, kind: tuple[str, ...]) -> None:
    rows = spark.createDataFrame([(*("+I" for _ in kind), 7, "a")], [*kind, "x", "y"])
    result = by_position(rows, TOTALS, ("n", "k"))
    assert result.columns == [*kind, "k", "n", "more"]
    assert [tuple(row) for row in result.collect()] == [(*("+I" for _ in kind), "a", 7, None)]


@pytest.mark.long
def test_updates_of_a_stream_go_to_the_columns_that_are_named(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    times = pa.array([0, 1_000_000], pa.timestamp("us"))
    write_next(tmp_path / "in", pa.table({"ts": times, "v": pa.array([5, 6], pa.int64())}))
    fresh_session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        SET 'table.exec.emit.allow-lateness' = '10 s';
        CREATE TABLE readings (ts TIMESTAMP(6), v BIGINT, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet');
        CREATE TABLE totals (n BIGINT, total BIGINT) WITH ('connector' = 'memory');
        INSERT INTO totals (total, n) SELECT SUM(v), COUNT(*)
        FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
        GROUP BY window_start, window_end
    """)
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    assert [tuple(row) for row in fresh_session.sql("SELECT n, total FROM totals").collect()] == [
        (2, 11)
    ]
