"""Calls on times without a zone, translated for Spark."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.sql.build import to_sql
from planner.sql.wall_clocks import keep_wall_clocks
from sqlwin.parser.parser import parse_query
from sqlwin.statements.parse import parse_statement

TYPES = {"ts": "timestamp_ntz", "d": "date", "at": "timestamp", "s": "string", "n": "bigint"}


def type_of(expr: exp.Expr) -> str | None:
    return TYPES.get(expr.name) if isinstance(expr, exp.Column) else None


def translate(expression: str) -> str:
    tree = parse_query(f"SELECT {expression} AS x FROM t")
    keep_wall_clocks(tree, type_of)
    return to_sql(tree).removeprefix("SELECT ").removesuffix(" AS x FROM t")


HOUR = "((ts) - MAKE_DT_INTERVAL(0, 0, MINUTE(ts), EXTRACT(SECOND FROM ts)))"


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ("TO_TIMESTAMP(s)", "TO_TIMESTAMP_NTZ(s)"),
        ("TO_TIMESTAMP('2026-03-29 02:30:00')", "TO_TIMESTAMP_NTZ('2026-03-29 02:30:00')"),
        ("TO_TIMESTAMP(d)", "TO_TIMESTAMP_NTZ(d)"),
        ("TO_TIMESTAMP(s, 'HH:mm')", "TO_TIMESTAMP_NTZ(s, 'HH:mm')"),
        ("TO_TIMESTAMP(s, 'HH''Z'' mm')", "TO_TIMESTAMP_NTZ(s, 'HH''Z'' mm')"),
        ("DATE_TRUNC('hour', ts)", HOUR),
        ("date_trunc('DAY', ts)", "CAST(CAST(ts AS DATE) AS TIMESTAMP_NTZ)"),
        (
            "DATE_TRUNC('MON', ts)",
            "CAST(TRUNC(CAST(ts AS DATE), 'MM') AS TIMESTAMP_NTZ)",
        ),
        (
            "TIMESTAMPDIFF(HOUR, ts, TO_TIMESTAMP(s))",
            "(((TO_TIMESTAMP_NTZ(s)) - (ts)) DIV INTERVAL '1' HOUR)",
        ),
        ("EXTRACT(EPOCH FROM at)", "(UNIX_MICROS(at) DIV 1000000)"),
        (
            "EXTRACT(epoch FROM ts)",
            "(((ts) - TIMESTAMP_NTZ '1970-01-01 00:00:00') DIV INTERVAL '1' SECOND)",
        ),
        ("EXTRACT(YEAR FROM ts)", "EXTRACT(YEAR FROM ts)"),
        ("DATEDIFF(DAY, d, ts)", "(((ts) - (CAST(d AS TIMESTAMP_NTZ))) DIV INTERVAL '1' DAY)"),
    ],
)
def test_times_without_a_zone_stay_without_one(written: str, given: str) -> None:
    assert translate(written) == given


@pytest.mark.parametrize(
    "call",
    [
        "TO_TIMESTAMP(n)",
        "TO_TIMESTAMP(at)",
        "TO_TIMESTAMP(s, 'HH:mm XXX')",
        "DATE_TRUNC('hour', at)",
        "DATE_FORMAT(at, 'HH:mm')",
        "TIMESTAMPDIFF(HOUR, at, ts)",
        "TIMESTAMPDIFF(MONTH, ts, ts)",
        "DATEDIFF(d, ts)",
    ],
)
def test_instants_and_numbers_are_left_to_spark(call: str) -> None:
    assert translate(call) == call


@pytest.mark.parametrize(
    ("constant", "same"),
    [
        ("DATE_TRUNC('mon' || 'th', ts)", "DATE_TRUNC('month', ts)"),
        ("DATE_TRUNC(CAST('hour' AS VARCHAR), ts)", "DATE_TRUNC('hour', ts)"),
        ("DATE_TRUNC(('day'), d)", "DATE_TRUNC('day', d)"),
        ("DATE_TRUNC(CONCAT('ho', 'ur'), ts)", "DATE_TRUNC('hour', ts)"),
        ("DATE_FORMAT(ts, 'HH' || ':mm')", "DATE_FORMAT(ts, 'HH:mm')"),
    ],
)
def test_a_constant_unit_or_pattern_means_the_same_as_a_literal(constant: str, same: str) -> None:
    given = translate(constant)
    assert given.replace("DATE_FORMAT(ts, 'HH' || ':mm')", same) == translate(same)


def test_a_constant_pattern_that_reads_a_zone_makes_an_instant() -> None:
    call = "TO_TIMESTAMP(s, 'HH:mm' || ' XXX')"
    assert translate(call) == call


@pytest.mark.parametrize("unit", ["s", "REPLACE(s, 'x', 'day')", "NULL"])
def test_a_unit_in_a_column_keeps_the_wall_clock(unit: str) -> None:
    given = translate(f"DATE_TRUNC({unit}, ts)")
    assert given.startswith(f"CASE UPPER({unit}) WHEN 'YEAR' THEN ")
    assert f"WHEN 'HOUR' THEN {HOUR}" in given
    assert "DATE_TRUNC" not in given


def test_a_column_without_a_name_is_named_after_the_text() -> None:
    tree = parse_query("SELECT DATE_TRUNC('hour', TO_TIMESTAMP(s)) FROM t")
    keep_wall_clocks(tree, type_of)
    assert isinstance(tree, exp.Select)
    assert tree.selects[0].alias == "DATE_TRUNC('hour', TO_TIMESTAMP(s))"


@pytest.mark.parametrize(
    ("columns", "computed"),
    [
        ("s STRING, ts AS TO_TIMESTAMP(s)", "TO_TIMESTAMP_NTZ(s)"),
        ("ts AS TO_TIMESTAMP(s)", "TO_TIMESTAMP_NTZ(s)"),
        ("n BIGINT, ts AS TO_TIMESTAMP(n)", "TO_TIMESTAMP(n)"),
        ("n BIGINT, ts AS TO_TIMESTAMP(n / 1000)", "TO_TIMESTAMP(n / 1000)"),
        ("at TIMESTAMP_LTZ(3), ts AS TO_TIMESTAMP(at)", "TO_TIMESTAMP(at)"),
        ("h TIMESTAMP(3), ts AS DATE_TRUNC('hour', h)", HOUR.replace("ts", "h")),
        ("p AS PROCTIME()", "PROCTIME()"),
    ],
)
def test_computed_columns_keep_wall_clocks(columns: str, computed: str) -> None:
    statement = parse_statement(f"CREATE TABLE t ({columns}) WITH ('connector' = 'memory')")
    assert statement.columns[-1].computed == computed  # type: ignore[attr-defined]
