"""Texts in dialects that no test runs: they say so, and sqlglot writes them."""

from __future__ import annotations

import datetime as dt

import duckdb
import pytest
from click.testing import CliRunner
from sqlglot import parse_one

import sqlwin
from runtime.errors import AnalysisError
from sqlwin.cli.app import main

TABLE = "CREATE TABLE t (ts TIMESTAMP(6), k STRING, v BIGINT);"
QUERY = """
    SELECT k, window_end, SUM(v) AS s
    FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTES))
    GROUP BY k, window_start, window_end
"""
CUMULATE = QUERY.replace("HOP", "CUMULATE")
WITHOUT_KEY = QUERY.replace("SELECT k, ", "SELECT ").replace("BY k, ", "BY ")


@pytest.mark.parametrize("dialect", ["databricks", "snowflake", "trino", "bigquery"])
def test_the_text_says_that_it_is_untested(dialect: str) -> None:
    text = sqlwin.compile(QUERY, "spark", schema=TABLE, untested=dialect)
    head, *rest = text.splitlines()
    assert head == f"/* untested: the text for spark, in the dialect {dialect} */"
    assert parse_one("\n".join(rest), read=dialect).named_selects == ["k", "window_end", "s"]


def test_the_text_of_an_engine_in_the_dialect_of_another_runs_there() -> None:
    text = sqlwin.compile(QUERY, "postgres", schema=TABLE, untested="duckdb")
    start = dt.datetime(2026, 3, 1)  # noqa: DTZ001  # a wall clock
    minute = dt.timedelta(minutes=1)
    with duckdb.connect() as connection:
        connection.sql("CREATE TABLE t (ts TIMESTAMP, k VARCHAR, v BIGINT)")
        connection.executemany(
            "INSERT INTO t VALUES (?, 'a', ?)", [(start, 1), (start + minute * 1.5, 2)]
        )
        rows = sorted(connection.sql(text).fetchall())
    assert rows == [("a", start + minute * n, s) for n, s in ((1, 1), (2, 3), (3, 2))]


@pytest.mark.parametrize(
    ("query", "engine", "dialect", "reason"),
    [
        (QUERY, "duckdb", "tsql", "sqlglot does not know a construct of it"),
        (CUMULATE, "duckdb", "redshift", "Unsupported EXPLODE() function"),
        (WITHOUT_KEY, "spark", "databricks", "sqlglot does not know a construct of it"),
    ],
)
def test_a_text_that_sqlglot_cannot_write_is_one_line(
    query: str, engine: str, dialect: str, reason: str
) -> None:
    arguments = ["--to", engine, "--untested", dialect, "-e", f"{TABLE}{query}"]
    result = CliRunner().invoke(main, ["compile", *arguments])
    assert result.exit_code != 0
    assert f"cannot write the text in the dialect {dialect}: {reason}\n" in result.stderr


def test_an_unknown_dialect_lists_the_known_ones() -> None:
    with pytest.raises(AnalysisError) as caught:
        sqlwin.compile(QUERY, "spark", schema=TABLE, untested="oracel")
    assert caught.value.message == "unknown dialect 'oracel'"
    assert "databricks, " in str(caught.value.hint)


def test_the_command_takes_the_dialect() -> None:
    arguments = ["--to", "spark", "--untested", "databricks", "-e", f"{TABLE}{QUERY}"]
    result = CliRunner().invoke(main, ["compile", *arguments])
    assert result.exit_code == 0
    assert result.stdout.startswith("/* untested: the text for spark, in the dialect databricks */")
