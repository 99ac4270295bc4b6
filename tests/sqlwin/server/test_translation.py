"""Texts, values and types between PostgreSQL's clients and sqlwin."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row

from runtime.errors import AnalysisError
from sqlwin.server.catalog.type_names import format_type
from sqlwin.server.translation import (
    JSON,
    oid_of,
    parameter_value,
    read_text,
    result_value,
    sample_value,
)


@pytest.mark.parametrize(
    ("sql", "text", "numbers"),
    [
        ("SELECT $1, $12, $1", "SELECT ? , ?  , ? ", (1, 12, 1)),
        (
            "SELECT '$1', \"$1\", `$1` -- $1\n/* $1 */ + $2",
            "SELECT '$1', \"$1\", `$1` -- $1\n/* $1 */ + ? ",
            (2,),
        ),
        (r"SELECT E'a\\b', 'it''s \' $1', $1", r"SELECT  'a\\b', 'it''s \' $1', ? ", (1,)),
        ('FROM public.t, "public"."u", PUBLIC . v', 'FROM        t,          "u",          v', ()),
        ("SELECT 'public.t', republic.t, public", "SELECT 'public.t', republic.t, public", ()),
    ],
)
def test_a_client_s_text_gets_sqlwin_s_spelling_in_the_same_place(
    sql: str, text: str, numbers: tuple[int, ...]
) -> None:
    spelled = read_text(sql)
    assert (spelled.text, spelled.numbers) == (text, numbers)
    assert len(spelled.text) == len(sql)


def test_values_are_ordered_as_the_statement_uses_them() -> None:
    assert read_text("$2 $1 $2").values(["a", "b"]) == ["b", "a", "b"]
    with pytest.raises(AnalysisError, match=r"the parameter \$3 has no value"):
        read_text("$3").values(["a"])


@pytest.mark.parametrize(
    ("text", "oid", "value"),
    [
        ("5", 23, 5),
        ("t", 16, True),
        ("false", 16, False),
        ("1.50", 1700, Decimal("1.50")),
        ("1e3", 701, 1000.0),
        ("1969-12-31", 1082, date(1969, 12, 31)),
        ("12:30:00", 1083, time(12, 30)),
        ("2024-05-01 12:00:00.5", 1114, datetime.fromisoformat("2024-05-01 12:00:00.5")),
        ("2024-05-01 12:00:00+00", 1184, datetime(2024, 5, 1, 12, tzinfo=UTC)),
        ("\\x00ff", 17, b"\x00\xff"),
        (["1", None], 1007, [1, None]),
        ("' OR 1=1", None, "' OR 1=1"),
        ("x", 25, "x"),
        (None, 23, None),
    ],
)
def test_a_parameter_has_the_value_of_its_declared_type(
    text: Any, oid: int | None, value: object
) -> None:
    assert parameter_value(text, oid) == value
    assert type(sample_value(oid)) in (type(value), str) or value is None


@pytest.mark.parametrize(
    ("text", "oid"), [("x", 23), ("1.5.1", 1700), ("2024-13-01", 1082), ("00", 17)]
)
def test_a_value_that_is_invalid_for_its_type_is_refused(text: str, oid: int) -> None:
    with pytest.raises(AnalysisError, match="is invalid for its declared type"):
        parameter_value(text, oid)


@pytest.mark.parametrize(
    ("sql_type", "oid", "name"),
    [
        ("bigint", 20, "bigint"),
        ("TIMESTAMP_NTZ", 1114, "timestamp without time zone"),
        ("timestamp", 1184, "timestamp with time zone"),
        ("decimal(10,2)", 1700, "numeric"),
        ("varchar(3)", 25, "text"),
        ("array<string>", 1009, "text[]"),
        ("array<decimal(3,1)>", 1231, "numeric[]"),
        ("array<array<int>>", 114, "json"),
        ("struct<a:int>", 114, "json"),
        ("interval day to second", 1186, "interval"),
        ("interval year", 25, "text"),
        ("variant", 25, "text"),
    ],
)
def test_a_type_has_an_oid_and_a_name(sql_type: str, oid: int, name: str) -> None:
    assert (oid_of(sql_type), format_type(oid_of(sql_type), None)) == (oid, name)


def test_nested_values_are_json() -> None:
    value = Row(a=1, b=[Row(c=date(1970, 1, 1))], m={1: None})
    assert result_value(value, JSON) == '{"a": 1, "b": [{"c": "1970-01-01"}], "m": {"1": null}}'
    assert result_value(None, JSON) is None
    assert result_value([1], 1007) == [1]
