"""Flink's functions, translated to Spark's."""

from __future__ import annotations

import pytest

from planner.sql.build import to_sql
from planner.sql.flink_functions import rewrite_functions, round_time, time_rounding_calls
from planner.sql.nodes import KeywordCall
from runtime.errors import AnalysisError
from sqlwin.parser.parser import parse_query


def rewritten(expression: str) -> str:
    tree = parse_query(f"SELECT {expression} AS x FROM t")
    rewrite_functions(tree)
    return to_sql(tree).removeprefix("SELECT ").removesuffix(" AS x FROM t")


def round_call(call: str, type_: str) -> str:
    sql = f"SELECT {call} AS x FROM t"
    tree = parse_query(sql)
    (result,) = time_rounding_calls(tree)
    round_time(result, type_, sql)
    return to_sql(tree).removeprefix("SELECT ").removesuffix(" AS x FROM t")


@pytest.mark.parametrize(
    ("flink", "expected"),
    [
        ("TO_TIMESTAMP_LTZ(ms, 3)", "TIMESTAMP_MILLIS(ms)"),
        ("to_timestamp_ltz(s, 0)", "TIMESTAMP_SECONDS(s)"),
        ("TO_TIMESTAMP_LTZ(us, 6)", "TIMESTAMP_MICROS(us)"),
        ("TO_TIMESTAMP_LTZ(text, 'yyyy')", "TO_TIMESTAMP_LTZ(text, 'yyyy')"),
        ("PROCTIME()", "CURRENT_TIMESTAMP()"),
        ("CURRENT_WATERMARK(ts)", "CASE WHEN FALSE THEN ts END"),
        ("WEEK(d)", "WEEKOFYEAR(d)"),
        ("LOCALTIMESTAMP", "LOCALTIMESTAMP()"),
        ("LISTAGG(item)", "LISTAGG(item, ',')"),
        (
            "LISTAGG(WEEK(d)) FILTER (WHERE d > e)",
            "LISTAGG(WEEKOFYEAR(d), ',') FILTER(WHERE d > e)",
        ),
        ("LISTAGG(DISTINCT item)", "LISTAGG(DISTINCT item, ',')"),
        ("LISTAGG(item) WITHIN GROUP (ORDER BY d)", "LISTAGG(item) WITHIN GROUP (ORDER BY d)"),
        ("STRING_AGG(item)", "STRING_AGG(item)"),
        ("ts < localtimestamp", "ts < LOCALTIMESTAMP()"),
        ("`LOCALTIMESTAMP` + t.localtimestamp", "`LOCALTIMESTAMP` + t.localtimestamp"),
        ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("LOCALTIME", "LOCALTIME"),
        ("DATE_FORMAT(ts, 'HH:mm')", "DATE_FORMAT(ts, 'HH:mm')"),
    ],
)
def test_functions_have_sparks_names(flink: str, expected: str) -> None:
    assert rewritten(flink) == expected


def test_queries_without_flinks_syntax_are_unchanged() -> None:
    assert not rewrite_functions(parse_query("SELECT TO_TIMESTAMP(a), FLOOR(b) FROM t"))


@pytest.mark.parametrize(
    ("call", "type_", "expected"),
    [
        ("FLOOR(ts TO DAY)", "timestamp", "DATE_TRUNC('DAY', ts)"),
        ("FLOOR(ts TO DAY)", "timestamp_ntz", "CAST(CAST(ts AS DATE) AS TIMESTAMP_NTZ)"),
        ("FLOOR(d TO MONTH)", "date", "TRUNC(d, 'MM')"),
        (
            "FLOOR(ts TO HOUR)",
            "timestamp_ntz",
            "((ts) - MAKE_DT_INTERVAL(0, 0, MINUTE(ts), EXTRACT(SECOND FROM ts)))",
        ),
    ],
)
def test_rounding_keeps_the_type_of_the_time(call: str, type_: str, expected: str) -> None:
    assert round_call(call, type_) == expected


def test_weeks_begin_on_sunday_as_flinks_do() -> None:
    assert round_call("FLOOR(d TO WEEK)", "date") == "DATE_SUB(d, DAYOFWEEK(d) - 1)"
    assert round_call("FLOOR(ts TO WEEK)", "timestamp") == (
        "TIMESTAMPADD(DAY, -1, DATE_TRUNC('WEEK', TIMESTAMPADD(DAY, 1, ts)))"
    )


def test_unknown_units_are_refused() -> None:
    for call, type_ in (("FLOOR(ts TO CENTURY)", "timestamp"), ("CEIL(d TO HOUR)", "date")):
        with pytest.raises(AnalysisError, match="cannot round"):
            round_call(call, type_)


def test_floor_of_a_number_is_unchanged() -> None:
    assert not time_rounding_calls(parse_query("SELECT FLOOR(a), CEIL(a, 2) FROM t"))
    assert isinstance(
        time_rounding_calls(parse_query("SELECT FLOOR(a TO DAY) FROM t"))[0], KeywordCall
    )
