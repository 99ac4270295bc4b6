"""Columns of tables of files that are certain without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from runtime.connectors.registry import open_table
from runtime.spec.table import Column, TableSpec
from sqlwin.catalog.certain_columns import certain_columns
from sqlwin.catalog.expressions import Expressions
from sqlwin.session import Session
from sqlwin.statements.nodes import CreateTable
from sqlwin.statements.parse import parse_statement
from tests.unstarted import NeedsSparkError, unstarted_spark


def table_of(directory: Path, *columns: str) -> CreateTable:
    (directory / "t.csv").write_text("1,2024-01-01 00:00:01,1.5,a\n2,2024-01-01 00:00:11,2.5,b\n")
    statement = parse_statement(
        f"CREATE TABLE t ({', '.join(columns)}) WITH ('connector' = 'filesystem', "
        f"'path' = '{directory}/t.csv', 'format' = 'csv')"
    )
    assert isinstance(statement, CreateTable)
    return statement


def spec_of(statement: CreateTable) -> TableSpec:
    options = [(key, value) for key, value in statement.options if key != "connector"]
    return TableSpec(
        name="t", connector="filesystem", columns=statement.columns, options=tuple(options)
    )


COLUMNS = ("id INT", "ts TIMESTAMP(3)", "v DOUBLE", "name STRING")
COMPUTED = (
    "w AS v * 2",
    "n AS id + CAST(1 AS BIGINT)",
    "upper AS UPPER(name)",
    "is_big AS v > 2 AND name IS NOT NULL",
    "later AS ts + INTERVAL '1' MINUTE",
    "kind AS CASE WHEN id = 1 THEN 'one' ELSE 'other' END",
    "pt AS PROCTIME()",
)


def test_computed_columns_have_the_types_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    # a computed column may stand before the columns that it reads
    statement = table_of(tmp_path, COMPUTED[0], *COLUMNS, *COMPUTED[1:])
    spec = spec_of(statement)
    certain = certain_columns(spec, lambda path: path, Expressions().tree)
    assert certain is not None
    schema = open_table(spec).rows(spark).schema
    assert certain == tuple(
        Column(field.name, field.dataType.simpleString(), field.nullable) for field in schema
    )


@pytest.mark.parametrize(
    "column",
    [
        "x AS INITCAP(name)",  # a function that only Spark has
        "x AS nothing + 1",
        "x AS COUNT(v)",
        "x AS (SELECT 1)",
        "x AS w + 1",  # another computed column
    ],
)
def test_other_computed_columns_are_left_to_spark(column: str, tmp_path: Path) -> None:
    spec = spec_of(table_of(tmp_path, *COLUMNS, COMPUTED[0], column))
    assert certain_columns(spec, lambda path: path, Expressions().tree) is None


def test_a_query_over_computed_columns_starts_no_spark(tmp_path: Path) -> None:
    statement = table_of(tmp_path, *COLUMNS, *COMPUTED)
    session = Session(unstarted_spark(), settings={})
    session.execute(statement.text)
    (result,) = session.execute("SELECT w, n, kind FROM t WHERE is_big")
    assert result.to_arrow().to_pylist() == [{"w": 5.0, "n": 3, "kind": "other"}]
    (result,) = session.execute("""
        SELECT window_end, SUM(w) AS s
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(later), INTERVAL '10' SECONDS))
        GROUP BY window_start, window_end
    """)
    assert [row["s"] for row in result.to_arrow().to_pylist()] == [3.0, 5.0]
    with pytest.raises(NeedsSparkError):
        session.execute("SELECT pt FROM t")[0].to_arrow()
