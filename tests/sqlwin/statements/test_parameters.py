"""Parameters of statements: where they stand, what values become, and places in errors."""

from __future__ import annotations

import pathlib
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import AnalysisError, SqlwinError
from sqlwin.parser.parser import parse_query, tokenize
from sqlwin.statements.literals import SqlLiteral, literal_of, read_value
from sqlwin.statements.parameters import bind_parameters, check_parameters, parameters, used_in

NTZ = datetime.fromisoformat("2024-05-01T12:00:00.5")


def names(sql: str) -> list[str | None]:
    return [each.name for each in parameters(sql)]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT :a, -:b, (:c), x=:d, ARRAY[:e]", ["a", "b", "c", "d", "e"]),
        ("SELECT ? + ?", [None, None]),
        ("SELECT ':a', \":b\", `:c` -- :d\n/* ? */", []),
        ("SELECT CAST(NULL AS STRUCT<a:INT, b :INT>) < :n", ["n"]),
        ("SELECT CAST(NULL AS ARRAY<STRUCT<a: MAP<INT, STRUCT<b :INT>>>>), :n", ["n"]),
        ("SELECT v:field, v[0]:field, x::INT, 'a'::STRING", []),
        ("SELECT :limit, :select", ["limit", "select"]),
        ("LIMIT :n OFFSET :m", ["n", "m"]),
        ("SELECT : a, :1", []),
        ("BEGIN one: WHILE TRUE DO SELECT 1; END WHILE; END", []),
        ("SELECT :größe", ["größe"]),
    ],
)
def test_parameters_are_tokens_of_their_own(sql: str, found: list[str | None]) -> None:
    assert names(sql) == found


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (7, "7"),
        (-7, "(-7)"),
        (3_000_000_000, "3000000000"),
        (2**63, "9223372036854775808BD"),
        (-(2**63), "(-9223372036854775808)"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E+3"), "1000BD"),
        (0.1, "0.1D"),
        (-1e-7, "(-1E-07D)"),
        (float("inf"), "CAST('Infinity' AS DOUBLE)"),
        (float("nan"), "CAST('NaN' AS DOUBLE)"),
        (b"\x0f\xff", "X'0FFF'"),
        (date(2024, 5, 1), "DATE '2024-05-01'"),
        (NTZ, "TIMESTAMP_NTZ '2024-05-01 12:00:00.500000'"),
        (NTZ.replace(tzinfo=UTC), "TIMESTAMP_LTZ '2024-05-01 12:00:00.500000+00:00'"),
        (time(1, 2), "TIME '01:02:00.000000'"),
        (timedelta(hours=36), "INTERVAL '36' HOUR"),
        (timedelta(days=-2), "INTERVAL '-2' DAY"),
        (timedelta(seconds=90, microseconds=5), "INTERVAL '90.000005' SECOND"),
        (-timedelta(microseconds=1), "INTERVAL '-0.000001' SECOND"),
        ([1, None], "array(1, NULL)"),
        ({"a": 1}, "map('a', 1)"),
        (uuid.UUID(int=1), "'00000000-0000-0000-0000-000000000001'"),
        (pathlib.PurePosixPath("/data/x.csv"), "'/data/x.csv'"),
        (np.int16(3), "3"),
        (np.float64(2.5), "2.5D"),
        (np.datetime64("2024-05-01T12"), "TIMESTAMP_NTZ '2024-05-01 12:00:00.000000'"),
        (pd.Timestamp("2024-05-01", tz="UTC"), "TIMESTAMP_LTZ '2024-05-01 00:00:00.000000+00:00'"),
        (pd.NaT, "NULL"),
        (pd.NA, "NULL"),
    ],
)
def test_values_are_literals_of_their_type(value: object, literal: str) -> None:
    assert literal_of(value, "it") == literal


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_stays_one_string_whatever_it_holds(text: str) -> None:
    bound = bind_parameters("SELECT r:x, 'a' || :text AS c -- ?", {"text": text}).text
    assert "${" not in bound  # where Spark would put a setting
    assert len(tokenize(bound)) == len(tokenize("SELECT r:x, 'a' || 'b' AS c"))
    (literal,) = [
        node
        for node in parse_query(f"SELECT{bind_parameters(' :t', {'t': text}).text}").walk()
        if node.is_string
    ]
    assert literal.name == text


@pytest.mark.parametrize("value", [object(), Decimal("NaN"), 10**38, "\ud800", complex(1)])
def test_what_sql_has_none_like_is_refused_at_its_place(value: object) -> None:
    with pytest.raises(
        AnalysisError, match=r"the value of the parameter :x .*\n.*column 8"
    ) as raised:
        check_parameters("SELECT :x", {"x": value})
    assert "^^" in str(raised.value)


@pytest.mark.parametrize(
    ("sql", "params", "said"),
    [
        ("SELECT :day", None, "missing value for the parameter :day\n  at line 1, column 8\n"),
        ("SELECT :day", {"dya": 1}, "did you mean :dya?"),
        ("SELECT :n", {}, "--param n=VALUE, \\param n=VALUE at the prompt, or params={'n': value}"),
        ("SELECT ?, ?", [1], "missing value for the 2nd ?\n  at line 1, column 11"),
        ("SELECT ?", {"a": 1}, "missing value for the 1st ?"),
        ("SELECT ?", [1, 2], "got 2 values for 1 parameter written as ?"),
        ("SELECT :a", {"a": 1, "b": 2}, "unknown parameter :b\n  available parameters: :a"),
        ("SELECT :a", {"a": 1, "aa": 2}, "did you mean :a?"),
        ("SELECT 1 IN (:ks)", {"ks": []}, "the list for the parameter :ks is empty"),
        ("SELECT ?", "x", "params must be a dict or a list of values, not a string"),
    ],
)
def test_each_parameter_has_a_value_and_each_value_a_parameter(
    sql: str, params: Any, said: str
) -> None:
    with pytest.raises(SqlwinError) as raised:
        check_parameters(sql, params)
    assert said in str(raised.value)


def test_a_list_fills_in_and_is_an_array_elsewhere() -> None:
    bound = bind_parameters(
        "SELECT f(:ks) WHERE k IN (:ks, ?)".replace("?", ":k"), {"ks": [1, 2], "k": 3}
    )
    assert bound.text.split() == "SELECT f( array(1, 2) ) WHERE k IN ( 1, 2 , 3 )".split()


def test_a_type_that_stands_before_a_parameter_is_not_said_twice() -> None:
    params = {"day": date(2024, 5, 1), "size": timedelta(hours=1), "text": "2024-05-01"}
    bound = bind_parameters("SELECT DATE :day, INTERVAL :size, DATE :text, :day", params)
    assert bound.text.split() == (
        "SELECT DATE '2024-05-01' , INTERVAL '1' HOUR , DATE '2024-05-01' , DATE '2024-05-01'".split()
    )


def test_values_in_order_go_on_from_statement_to_statement() -> None:
    assert bind_parameters("SELECT ?, ?", [1, 2, 3], 1).text.split() == ["SELECT", "2", ",", "3"]


def test_places_come_back_to_what_was_written() -> None:
    sql = "SELECT :a,\n  nope + :bb FROM t"
    bound = bind_parameters(sql, {"a": "a long text", "bb": 2})
    for word in ("SELECT", "nope", "FROM t"):
        at = bound.text.index(word)
        assert bound.original(at, len(word)) == (sql.index(word), len(word))
    assert bound.original(bound.text.index("long"), 4) == (sql.index(":a"), 2)
    whole = bound.text.index("nope"), len("nope +  2")
    assert bound.original(*whole) == (sql.index("nope"), len("nope + :bb"))


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("7", SqlLiteral("7")),
        ("-1.5e3", SqlLiteral("(-1.5e3)")),
        ("null", SqlLiteral("NULL")),
        ("007", "007"),
        ("+49 30", "+49 30"),
        ("9E", "9E"),
        ("2024-05-01", "2024-05-01"),
        ("", ""),
        ("O'Brien", "O'Brien"),
        ("'7'", "7"),
        ("'${env:HOME}' -- x", "${env:HOME}"),
        ("'a' OR TRUE", "'a' OR TRUE"),
        ("DATE '2024-05-01'", SqlLiteral("DATE '2024-05-01'")),
        ("TIMESTAMP '${x}'", SqlLiteral(r"TIMESTAMP '\u0024{x}'")),
        ("INTERVAL '10' MINUTES", SqlLiteral("INTERVAL '10' MINUTES")),
        ("INTERVAL is a word", "INTERVAL is a word"),
        ("DATE 'x' + 1", "DATE 'x' + 1"),
    ],
)
def test_what_is_typed_is_a_literal_or_a_text(typed: str, value: object) -> None:
    assert read_value(typed) == value


def test_of_the_values_those_that_a_text_uses() -> None:
    assert used_in("SELECT :a", {"a": 1, "b": 2}) == {"a": 1}
    assert used_in("SELECT :b, 'open", {"a": 1}) == {"a": 1}
