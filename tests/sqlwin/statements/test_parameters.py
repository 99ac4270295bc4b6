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
from sqlglot import exp

from runtime.errors import AnalysisError, SqlwinError
from sqlwin.execution.errors import ScriptPlace
from sqlwin.parser.parser import parse_query
from sqlwin.statements.literals import SqlLiteral, literal_of, literal_text, read_value
from sqlwin.statements.nodes import CreateTable, Query, Set, Statement
from sqlwin.statements.parameters import BoundStatement, bind_parameters, check_parameters
from sqlwin.statements.parse import parse_statement, read_statement
from sqlwin.statements.split import read_script

NTZ = datetime.fromisoformat("2024-05-01T12:00:00.5")


def names(sql: str) -> list[str | None]:
    parts = read_script(sql).statements
    return [parameter.name for part in parts for parameter in part.parameters]


def bind(sql: str, params: Any, n_before: int = 0) -> BoundStatement:
    (part,) = read_script(sql).statements
    return bind_parameters(part, params, n_before)


def statement_of(sql: str, params: Any) -> Statement:
    return read_statement(bind(sql, params))


def literal(text: str) -> SqlLiteral:
    return SqlLiteral(text, parse_query(f"SELECT {text}").expressions[0])


def check(sql: str, params: Any) -> None:
    check_parameters(read_script(sql), params)


@pytest.mark.parametrize(
    ("sql", "expected"),
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
def test_parameters_are_tokens_of_their_own(sql: str, expected: list[str | None]) -> None:
    assert names(sql) == expected


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
    assert literal_text(value, "it") == literal
    assert literal_of(value, "it") == parse_query(f"SELECT {literal}").expressions[0]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_stays_one_string(text: str) -> None:
    bound = bind("SELECT r:x, 'a' || :text AS c -- ?", {"text": text})
    assert "${" not in bound.text  # where Spark would substitute a setting
    assert len(bound.tokens) == len(bind("SELECT r:x, 'a' || 'b' AS c", None).tokens)
    # the text for Spark has the same meaning as the tree
    for query in (read_statement(bound), parse_statement(bound.text)):
        assert isinstance(query, Query)
        assert [node.name for node in query.ast.walk() if node.is_string] == ["a", text]


@pytest.mark.parametrize("value", [object(), Decimal("NaN"), 10**38, "\ud800", complex(1)])
def test_values_without_a_sql_type_are_refused_at_their_position(value: object) -> None:
    with pytest.raises(
        AnalysisError, match=r"the value of the parameter :x .*\n.*column 8"
    ) as raised:
        check("SELECT :x", {"x": value})
    assert "^^" in str(raised.value)


@pytest.mark.parametrize(
    ("sql", "params", "message"),
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
    sql: str, params: Any, message: str
) -> None:
    with pytest.raises(SqlwinError) as raised:
        check(sql, params)
    assert message in str(raised.value)


def test_a_list_fills_in_and_is_an_array_elsewhere() -> None:
    bound = bind("SELECT f(:ks) WHERE k IN (:ks, :k)", {"ks": [1, 2], "k": 3})
    assert bound.text.split() == "SELECT f( array(1, 2) ) WHERE k IN ( 1, 2 , 3 )".split()


def test_a_type_before_a_parameter_is_not_repeated() -> None:
    params = {"day": date(2024, 5, 1), "size": timedelta(hours=1), "text": "2024-05-01"}
    bound = bind("SELECT DATE :day, INTERVAL :size, DATE :text, :day", params)
    assert bound.text.split() == (
        "SELECT DATE '2024-05-01' , INTERVAL '1' HOUR , DATE '2024-05-01' , DATE '2024-05-01'".split()
    )


def test_values_in_order_go_on_from_statement_to_statement() -> None:
    assert bind("SELECT ?, ?", [1, 2, 3], 1).text.split() == ["SELECT", "2", ",", "3"]


def test_positions_map_back_to_the_users_text() -> None:
    sql = "SELECT :a,\n  nope + :bb FROM t"
    bound = bind(sql, {"a": "a long text", "bb": 2})
    for word in ("SELECT", "nope", "FROM t"):
        at = bound.text.index(word)
        assert bound.original(at, len(word)) == (sql.index(word), len(word))
    assert bound.original(bound.text.index("long"), 4) == (sql.index(":a"), 2)
    whole = bound.text.index("nope"), len("nope +  2")
    assert bound.original(*whole) == (sql.index("nope"), len("nope + :bb"))


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("7", literal("7")),
        ("-1.5e3", literal("(-1.5e3)")),
        ("null", literal("NULL")),
        ("007", "007"),
        ("+49 30", "+49 30"),
        ("9E", "9E"),
        ("2024-05-01", "2024-05-01"),
        ("", ""),
        ("O'Brien", "O'Brien"),
        ("'7'", "7"),
        ("'${env:HOME}' -- x", "${env:HOME}"),
        ("'a' OR TRUE", "'a' OR TRUE"),
        ("DATE '2024-05-01'", literal("DATE '2024-05-01'")),
        ("TIMESTAMP '${x}'", literal(r"TIMESTAMP '\u0024{x}'")),
        ("INTERVAL '10' MINUTES", literal("INTERVAL '10' MINUTES")),
        ("INTERVAL is a word", "INTERVAL is a word"),
        ("DATE 'x' + 1", "DATE 'x' + 1"),
    ],
)
def test_command_line_values_are_literals_or_texts(typed: str, value: object) -> None:
    read = read_value(typed)
    assert read == value
    if isinstance(read, SqlLiteral) and isinstance(value, SqlLiteral):
        assert read.node == value.node


VALUES: dict[str, object] = {
    "text": "it's",
    "n": 7,
    "negative": -7,
    "x": 2.5,
    "none": None,
    "yes": True,
    "day": date(2024, 5, 1),
    "at": NTZ,
    "size": timedelta(hours=1),
    "items": [1, date(2024, 5, 1)],
    "days_off": [date(2024, 5, 1)],
    "raw": b"\x0f",
    "typed": read_value("TIMESTAMP '2024-05-01 12:00:00'"),
    "days": read_value("INTERVAL 1 DAY 2 HOURS"),
}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT :text, :n, -:n, :negative, :x, :none, :yes, :day, :at, :size, :items, :raw, :typed",
        "SELECT :n::STRING, :day + INTERVAL :n DAYS, :days, INTERVAL :days, a[:n], :none IS NULL",
        "SELECT * FROM t WHERE k IN (:items, :n, :day) AND j NOT IN (:items) OR l IN (:items)",
        "SELECT :days_off FROM t WHERE k IN (:days_off) OR :days_off IS NULL",
        "SELECT DATE :day, DATE :text, TIMESTAMP :day, TIMESTAMP :at, INTERVAL :size",
        "SELECT INTERVAL :negative MINUTES + INTERVAL :text, INTERVAL :n DAY 2 HOURS",
        "SELECT * FROM :text WHERE a LIKE :text ESCAPE :text ORDER BY :n LIMIT :n OFFSET :n",
        "SELECT * FROM read_csv(:text, skip = :n) TABLESAMPLE (:n PERCENT)",
        "SELECT SUM(v) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), :size, INTERVAL :n DAYS)) GROUP BY :n",
        "SELECT * FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), :size, INTERVAL :n HOURS, :yes))",
        "SELECT * FROM (SELECT k, v FROM t) PIVOT (SUM(v) FOR k IN (:items, :text))",
        "SELECT TRIM(BOTH :text FROM k), CASE WHEN :yes THEN :day ELSE :none END FROM t",
        "VALUES (:n, :day), (:negative, NULL)",
        "INSERT INTO t PARTITION (day = :day) SELECT :items, :text",
        "CREATE TABLE t (a DECIMAL(:n, 2), b AS a + :negative, c AS CAST(:at AS TIMESTAMP(3)), "
        "WATERMARK FOR c AS c - INTERVAL :n SECONDS) COMMENT :text "
        "WITH ('connector' = 'filesystem', 'path' = :text, 'n' = :n, 'is' = :yes)",
        "CREATE VIEW v COMMENT :text AS SELECT * FROM t WHERE day > :day",
        "CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL :n MINUTE AS SELECT :text AS k",
        "EXPLAIN SELECT :day, :text",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT :day; INSERT INTO b SELECT :n; END",
        "SET 'a.b' = :text",
        "SHOW TABLES LIKE :text",
        "SHOW STATE OF :text",
        "DESCRIBE :text",
        "SUMMARIZE :text",
        "STOP STREAM :n",
    ],
)
def test_a_value_has_the_tree_of_its_literal(sql: str) -> None:
    """The tree is built from the value. Parsing the text for Spark gives the same one."""
    bound = bind(sql, VALUES)
    statement, again = read_statement(bound), parse_statement(bound.text)
    assert statement == again
    assert type(statement).__name__ != "SparkStatement" or sql.startswith("VALUES")


def test_a_statement_gets_values_in_its_fields() -> None:
    table = statement_of(
        "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = :path)",
        {"path": "/data/it's"},
    )
    assert isinstance(table, CreateTable)
    assert dict(table.options)["path"] == "/data/it's"
    setting = statement_of("SET 'a' = :value", {"value": 7})
    assert isinstance(setting, Set) and setting.value == "7"


def test_parameters_without_values_are_placeholders_in_the_tree() -> None:
    query = parse_statement("SELECT :a, ? FROM t WHERE ts > now() - INTERVAL :n MINUTES LIMIT :m")
    assert isinstance(query, Query)
    placeholders = list(query.ast.find_all(exp.Placeholder))
    assert [str(node.name) for node in placeholders] == ["a", "?", "m", "n"]
    (n,) = [node for node in placeholders if node.name == "n"]
    assert query.text[n.meta["start"] : n.meta["end"] + 1] == ":n"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a AS :day FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "SELECT a :day FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "SELECT a FROM TABLE(TUMBLE(TABLE :day, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "SELECT a FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(:day), INTERVAL '1' HOUR))",
        "DROP TABLE :day; SELECT",
        "CREATE TABLE :day (a INT) WITH ('connector' = 'datagen')",
    ],
)
def test_a_parameter_is_no_name(sql: str) -> None:
    sql = sql.partition(";")[0]
    try:
        statement = statement_of(sql, {"day": date(2024, 5, 1)})
    except SqlwinError as error:
        bound = bind(sql, {"day": date(2024, 5, 1)})
        assert error.position is not None
        start, length = bound.original(error.position.offset, error.position.length)
        assert sql[start : start + length] in (":day", "DESCRIPTOR(:day")
    else:
        assert type(statement).__name__ == "SparkStatement"  # Spark refuses it


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE :name (a INT) WITH ('connector' = 'datagen')",
        "EXPLAIN SELECT a :name FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
    ],
)
@pytest.mark.parametrize("value", ["a name", -7])
def test_a_parameter_as_a_name_is_explained(sql: str, value: object) -> None:
    script = f"SELECT 1;\n{sql}"
    part = read_script(script).statements[1]
    bound = bind_parameters(part, {"name": value})
    with pytest.raises(SqlwinError) as raised:
        read_statement(bound)
    error = ScriptPlace(part, bound, script, None).with_position(raised.value)
    position = error.position
    assert position is not None
    assert script[position.offset : position.offset + position.length] == ":name"
    assert error.hint == ":name is a value: a name or a keyword cannot be a parameter"


def test_a_number_that_an_interval_cannot_have_is_refused() -> None:
    with pytest.raises(SqlwinError, match="must be a number or a string, but :x is not"):
        statement_of(
            "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL :x SECONDS))", VALUES
        )


def test_values_that_a_script_does_not_use() -> None:
    script = read_script("SELECT :a")
    check_parameters(script, {"a": 1, "b": 2}, ignores_unused=True)
    with pytest.raises(SqlwinError, match="unknown parameter :b"):
        check_parameters(script, {"a": 1, "b": 2})


def test_a_name_before_a_word_that_would_form_a_keyword() -> None:
    bound = bind("SELECT :group by", {"group": 1})
    assert [token.text for token in bound.tokens] == ["SELECT", "1", "by"]
    assert [bound.text[t.start : t.end + 1] for t in bound.tokens] == ["SELECT", "1", "by"]
