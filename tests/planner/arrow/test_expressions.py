"""Which SQL the Arrow scan evaluates, with which types and casts, and the reasons for refusals."""

from __future__ import annotations

from decimal import Decimal

import pytest
import sqlglot

from planner.arrow.expressions import to_arrow_expression
from planner.scalars.types import common_type
from runtime.refusal import Refusal, Refused, tried
from runtime.shown_types import shown_type
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression
from runtime.spec.table import Column
from sqlwin.parser.parser import SqlWinQueries

SCHEMA = tuple(
    Column(name, type_)
    for name, type_ in {
        "Amount": "bigint",
        "i": "int",
        "y": "tinyint",
        "d": "double",
        "f": "float",
        "s": "string",
        "o": "boolean",
        "x": "date",
        "t": "timestamp",
        "n": "timestamp_ntz",
        "m": "decimal(10,2)",
        "l": "decimal(38,10)",
        "a": "array<int>",
        "c": "char(3)",
        "s_ai": "string collate UNICODE_AI",
        "x.y": "int",
    }.items()
)
INTEGER, DOUBLE, TEXT, FLAG = (
    ColumnRef(*pair) for pair in (("i", "int"), ("d", "double"), ("s", "string"), ("o", "boolean"))
)


def translate(sql: str, time_zone: str = "UTC") -> Expression | str:
    """Translate `sql`, or return the text of the reason why that is impossible."""
    tree = sqlglot.parse_one(f"SELECT {sql}", dialect=SqlWinQueries).expressions[0]
    made = tried(to_arrow_expression, tree, SCHEMA, time_zone)
    return made.reason if isinstance(made, Refusal) else made


# -- types and implicit casts --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("tinyint", "smallint", "smallint"),
        ("int", "bigint", "bigint"),
        ("tinyint", "float", "double"),
        ("float", "float", "float"),
        ("float", "double", "double"),
        ("bigint", "double", "double"),
        ("int", "decimal(3,2)", "decimal(12,2)"),
        ("bigint", "decimal(30,2)", "decimal(30,2)"),
        ("bigint", "decimal(38,19)", None),
        ("decimal(10,2)", "decimal(5,4)", "decimal(12,4)"),
        ("decimal(10,2)", "float", "double"),
        ("void", "date", "date"),
        ("string", "int", None),
        ("date", "timestamp", None),
        ("timestamp", "timestamp_ntz", None),
        ("boolean", "int", None),
    ],
)
def test_operands_meet_in_the_type_that_spark_gives_them(left, right, expected):
    assert common_type(left, right) == expected
    assert common_type(right, left) == expected


@pytest.mark.parametrize(
    ("sql", "value", "type_"),
    [
        ("2147483647", 2147483647, "int"),
        ("2147483648", 2147483648, "bigint"),
        ("-2147483648", -2147483648, "int"),
        ("-9223372036854775808", -9223372036854775808, "bigint"),
        ("9223372036854775808", Decimal(9223372036854775808), "decimal(19,0)"),
        ("1.50", Decimal("1.50"), "decimal(3,2)"),
        (".05", Decimal("0.05"), "decimal(2,2)"),
        ("5.", Decimal(5), "decimal(1,0)"),
        ("1e3", 1000.0, "double"),
        ("0.1D", 0.1, "double"),
        ("-128Y", -128, "tinyint"),
        ("10L", 10, "bigint"),
        ("'it''s'", "it's", "string"),
        ("CAST(NULL AS DATE)", None, "date"),
        ("DATE '1969-12-31'", -1, "date"),
        ("TIMESTAMP_NTZ '1969-12-31 23:59:59.9'", -100_000, "timestamp_ntz"),
    ],
)
def test_literals_have_the_types_that_spark_gives_them(sql, value, type_):
    assert translate(sql) == Constant(value, type_)


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-10T02:30:00Z",
        "2024-03-10 02:30:00UTC",
        "2024-03-10T02:30:00.000+02:00",
        "2024-03-10 02:30:00-18:00",
    ],
)
def test_a_zone_in_a_text_is_ignored_for_wall_clock_times_as_in_spark(text):
    literal = Constant(1_710_037_800_000_000, "timestamp_ntz")
    for zone in ("UTC", "America/New_York"):
        assert translate(f"CAST('{text}' AS TIMESTAMP_NTZ)", zone) == literal
        assert translate(f"n >= '{text}'", zone) == Call(
            ">=", (ColumnRef("n", "timestamp_ntz"), literal), "boolean"
        )


@pytest.mark.parametrize(
    "text",
    # invalid zones, and a zone without a time
    ["2024-03-10T02:30:00+18:01", "2024-03-10T02:30:00+02:60", "2024-03-10Z", "2024-03-10+02:00"],
)
@pytest.mark.parametrize("type_", ["TIMESTAMP_NTZ", "TIMESTAMP"])
def test_texts_that_spark_does_not_read_as_times_are_left_to_it(text, type_):
    reason = f"'{text}' as {shown_type(type_)} is not supported by the scan"
    assert translate(f"CAST('{text}' AS {type_})") == reason


def test_columns_match_in_any_case_and_keep_their_names():
    assert translate("AMOUNT") == ColumnRef("Amount", "bigint")


def test_operands_are_cast_and_constants_at_once():
    wide = Call("cast", (INTEGER,), "bigint")
    assert translate("i + 1L") == Call("+", (wide, Constant(1, "bigint")), "bigint")
    assert translate("d > 1.5") == Call(">", (DOUBLE, Constant(1.5, "double")), "boolean")
    assert translate("i = 1.5") == Call(
        "=",
        (Call("cast", (INTEGER,), "decimal(11,1)"), Constant(Decimal("1.5"), "decimal(11,1)")),
        "boolean",
    )


def test_division_is_of_doubles_and_div_of_bigints():
    two = Constant(2.0, "double")
    assert translate("i / 2") == Call("/", (Call("cast", (INTEGER,), "double"), two), "double")
    assert translate("i DIV 2") == Call(
        "div", (Call("cast", (INTEGER,), "bigint"), Constant(2, "bigint")), "bigint"
    )


@pytest.mark.parametrize(
    ("time_zone", "text", "utc"),
    [
        ("UTC", "2024-03-10 02:30:00", "2024-03-10 02:30:00"),
        ("+05:30", "2024-03-10 02:30:00", "2024-03-09 21:00:00"),
        # 02:30 was skipped: it means the instant of 03:30 in summer time
        ("America/Los_Angeles", "2024-03-10 02:30:00", "2024-03-10 10:30:00"),
        # 01:30 occurred twice: it means the first
        ("America/Los_Angeles", "2024-11-03 01:30:00", "2024-11-03 08:30:00"),
        ("America/Los_Angeles", "2024-11-03 01:30:00Z", "2024-11-03 01:30:00"),
    ],
)
def test_a_timestamp_without_zone_is_in_the_zone_of_the_session(time_zone, text, utc):
    expected = translate(f"TIMESTAMP_LTZ '{utc}'")
    assert translate(f"TIMESTAMP_LTZ '{text}'", time_zone) == expected


@pytest.mark.parametrize("zone", ["UTC", "+05:30", "America/Los_Angeles", "IST"])
def test_a_timestamp_literal_has_no_zone(zone):
    literal = Constant(1_710_037_800_000_000, "timestamp_ntz")
    assert translate("TIMESTAMP '2024-03-10 02:30:00'", zone) == literal
    assert translate("n < TIMESTAMP '2024-03-10 02:30:00'", zone) == Call(
        "<", (ColumnRef("n", "timestamp_ntz"), literal), "boolean"
    )


@pytest.mark.parametrize(
    ("zone", "instant"),
    [("UTC", "2024-03-10 02:30:00"), ("America/Los_Angeles", "2024-03-10 10:30:00")],
)
def test_a_timestamp_compared_with_an_instant_uses_the_sessions_clock(zone, instant):
    expected = translate(f"t < TIMESTAMP_LTZ '{instant}'")
    assert translate("t < TIMESTAMP '2024-03-10 02:30:00'", zone) == expected
    assert translate("t < TIMESTAMP '2024-03-10 02:30:00Z'", zone) == translate(
        "t < TIMESTAMP_LTZ '2024-03-10 02:30:00'"
    )


def test_a_written_string_next_to_a_date_is_a_date():
    x = ColumnRef("x", "date")
    assert translate("x >= '1970-01-02'") == Call(">=", (x, Constant(1, "date")), "boolean")
    assert translate("'1970-01-02' IN (x)") == Call("=", (Constant(1, "date"), x), "boolean")


# -- forms ---------------------------------------------------------------------------------------


def test_spellings_reduce_to_a_few_functions():
    one, null = Constant(1, "int"), Constant(None, "int")
    equal = Call("=", (INTEGER, one), "boolean")
    assert translate("NULLIF(i, 1)") == Call("case", (equal, null, INTEGER), "int")
    assert translate("IF(i = 1, i, NULL)") == Call("case", (equal, INTEGER, null), "int")
    assert translate("CASE i WHEN 1 THEN i END") == Call("case", (equal, INTEGER, null), "int")
    assert (
        translate("NVL(i, 1)")
        == translate("COALESCE(i, 1)")
        == Call("coalesce", (INTEGER, one), "int")
    )
    assert translate("i IS DISTINCT FROM 1") == Call(
        "not", (Call("<=>", (INTEGER, one), "boolean"),), "boolean"
    )
    assert translate("o IS TRUE") == Call("<=>", (FLAG, Constant(True, "boolean")), "boolean")
    assert translate("i BETWEEN 1 AND NULL") == Call(
        "and",
        (Call(">=", (INTEGER, one), "boolean"), Call("<=", (INTEGER, null), "boolean")),
        "boolean",
    )
    assert translate("i IN (1, NULL)") == Call("in", (INTEGER, one, null), "boolean")


def test_a_prefix_pattern_needs_no_like():
    prefix = Call("starts_with", (TEXT, Constant("ab", "string")), "boolean")
    assert translate("s LIKE 'ab%'") == prefix
    assert translate("s NOT LIKE 'ab%'") == Call("not", (prefix,), "boolean")
    assert translate("s LIKE 'ab'") == Call("=", (TEXT, Constant("ab", "string")), "boolean")


def test_arithmetic_of_decimals_has_the_types_of_spark():
    m = ColumnRef("m", "decimal(10,2)")
    one = Constant(Decimal(1), "decimal(1,0)")
    assert translate("m + 1") == Call("+", (m, one), "decimal(11,2)")
    # 10L has two digits, an INT column ten, a cast literal as many as its type
    assert translate("m * 10L").type == "decimal(13,2)"
    assert translate("m * i").type == "decimal(21,2)"
    assert translate("m / CAST(10 AS BIGINT)").type == "decimal(31,23)"
    assert translate("l * l").type == "decimal(38,6)"
    assert translate("m + 1e0").type == "double"


def test_upper_and_lower_are_left_to_spark_in_languages_with_rules_of_their_own(monkeypatch):
    assert isinstance(translate("UPPER(s)"), Call)
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    assert translate("UPPER(s)") == "UPPER in the language tr_TR.UTF-8 is not supported by the scan"


@pytest.mark.parametrize(
    ("zone", "is_here"), [("UTC", True), ("+05:30", True), ("Europe/Berlin", False)]
)
def test_a_wall_clock_is_formatted_where_clocks_never_change(zone, is_here):
    assert isinstance(translate("DATE_FORMAT(n, 'HH:mm')", zone), Call) is is_here
    assert isinstance(translate("DATE_FORMAT(t, 'HH:mm')", zone), Call)


def test_a_long_chain_of_and_is_one_call():
    chain = translate(" AND ".join(["o"] * 500))
    assert isinstance(chain, Call)
    assert chain.args == (FLAG,) * 500


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("INITCAP(s)", "INITCAP is not supported by the scan"),
        ("UPPER(i)", "UPPER of INT is not supported by the scan"),
        (
            "SUBSTRING(s, i)",
            "SUBSTRING with arguments that are not literals is not supported by the scan",
        ),
        ("DATE_FORMAT(t, 'yyy')", "DATE_FORMAT with this pattern is not supported by the scan"),
        ("DATE_FORMAT(t, s)", "DATE_FORMAT with this pattern is not supported by the scan"),
        ("DATE_FORMAT(x, 'HH')", "DATE_FORMAT of a DATE with a time is not supported by the scan"),
        ("EXTRACT(SECOND FROM t)", "EXTRACT is not supported by the scan"),
        (
            "t + INTERVAL '1' DAY",
            "TIMESTAMP_LTZ plus an interval of days is not supported by the scan",
        ),
        ("n + INTERVAL '1' MONTH", "n + INTERVAL '1' MONTH is not supported by the scan"),
        ("GREATEST(i, d)", "GREATEST of INT, DOUBLE is not supported by the scan"),
        ("TRY_CAST(i AS TINYINT)", "TRY_CAST is not supported by the scan"),
        ("m DIV 2", "DIV of decimals is not supported by the scan"),
        ("m + NULL", "+ of decimals is not supported by the scan"),
        ("x + 1", "+ of DATE and INT is not supported by the scan"),
        ("i = s", "INT together with STRING is not supported by the scan"),
        ("i = '1'", "INT together with STRING is not supported by the scan"),
        ("x = n", "DATE together with TIMESTAMP(6) is not supported by the scan"),
        ("t = n", "TIMESTAMP_LTZ(6) together with TIMESTAMP(6) is not supported by the scan"),
        ("COALESCE(x, '1970-01-01')", "DATE together with STRING is not supported by the scan"),
        ("l < 1e0", "the cast from DECIMAL(38, 10) to DOUBLE is not supported by the scan"),
        ("CAST(d AS STRING)", "the cast from DOUBLE to STRING is not supported by the scan"),
        (
            "CAST(l AS STRING)",
            "the cast from DECIMAL(38, 10) to STRING is not supported by the scan",
        ),
        (
            "CAST(n AS TIMESTAMP)",
            "the cast from TIMESTAMP(6) to TIMESTAMP_LTZ(6) is not supported by the scan",
        ),
        ("x > '70-1-1'", "'70-1-1' as DATE is not supported by the scan"),
        ("DATE '2023-02-29'", "'2023-02-29' as DATE is not supported by the scan"),
        ("n > '2024-01-01Z'", "'2024-01-01Z' as TIMESTAMP(6) is not supported by the scan"),
        ("0.1F", "0.1F is not supported by the scan"),
        ("1e999", "1e999 is not supported by the scan"),
        ("-CAST(128 AS TINYINT)", "-CAST(128 AS TINYINT) is not supported by the scan"),
        (
            "Amount < 1e0 = o IN (TRUE)",
            "Amount < 1e0 = o IN (TRUE) without parentheses is not supported by the scan",
        ),
        (
            "Amount < 9223372036854775808",
            "BIGINT compared with a number beyond BIGINT is not supported by the scan",
        ),
        (
            "s LIKE s",
            "s LIKE s is not supported by the scan: its pattern is not a literal",
        ),
        ("i IN (SELECT 1)", "IN with a subquery is not supported by the scan"),
        ("a", "a is ARRAY<INT>, which is not supported by the scan"),
        ("c = 'a'", "c is CHAR(3), which is not supported by the scan"),
        ("s_ai = 'a'", "s_ai is STRING COLLATE UNICODE_AI, which is not supported by the scan"),
        ("nothing", "nothing is not a column of the scan"),
        ("a.b", "a.b may be a struct field"),
        ("`x.y`", "`x.y` has a dot in its name, like a struct field"),
        ("NULL", "NULL without a type is not supported by the scan"),
        ("i AND o", "INT is not a condition"),
        ("- " * 200 + "i", "the expression is too large for the scan"),
    ],
)
def test_expressions_left_to_spark_give_the_reason(sql, reason):
    assert translate(sql) == reason


@pytest.mark.parametrize("time_zone", ["IST", "Mars/Olympus"])
def test_a_local_time_is_left_to_spark_where_its_zone_is_java_s_own(time_zone):
    beside = "TIMESTAMP together with TIMESTAMP_LTZ is not supported by the scan in this time zone"
    assert translate("t > TIMESTAMP '2024-01-01 00:00:00'", time_zone) == beside
    sql = "t > TIMESTAMP_LTZ '2024-01-01 00:00:00'"
    assert (
        translate(sql, time_zone)
        == "'2024-01-01 00:00:00' as TIMESTAMP_LTZ(6) is not supported by the scan"
    )


def test_a_local_time_before_1970_is_left_to_spark_where_the_zone_has_a_history():
    sql = "TIMESTAMP_LTZ '1883-11-18 12:00:00'"
    assert isinstance(translate(sql, "America/New_York"), str)
    assert isinstance(translate(sql, "UTC"), Constant)


def test_a_name_that_two_columns_have_is_left_to_spark():
    schema = (Column("i", "int"), Column("I", "int"))
    with pytest.raises(Refused, match=r"^i is not a column of the scan$"):
        to_arrow_expression(sqlglot.exp.column("i"), schema, "UTC")
