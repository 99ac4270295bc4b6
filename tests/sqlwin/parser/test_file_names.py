"""Paths as table names, and `TABLE(STATE('dir', ...))`."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.sql.nodes import (
    TABLE_OPTIONS,
    StateTable,
    WindowFunctionCall,
    name_of_columns,
    name_of_state,
    state_of_name,
)
from runtime.errors import SqlSyntaxError, SqlwinError
from sqlwin.parser.parser import parse_query
from sqlwin.parser.strings import pattern_value
from sqlwin.statements.nodes import Describe, Query, ShowCreateTable, ShowState, Summarize
from sqlwin.statements.parse import parse_statement


def tables(sql: str) -> list[exp.Table]:
    statement = parse_statement(sql)
    assert isinstance(statement, Query)
    return list(statement.ast.find_all(exp.Table))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM 'data/f.csv'",
        "FROM 'data/f.csv'",
        "SELECT f.a FROM 'data/f.csv' AS x",
        "SELECT * FROM (SELECT * FROM 'data/f.csv') AS q",
        "SELECT * FROM TUMBLE('data/f.csv', ts, 1h)",
        "SELECT * FROM TABLE(TUMBLE(TABLE 'data/f.csv', DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "SELECT * FROM TABLE(TUMBLE('data/f.csv', DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "SELECT * FROM SESSION(TABLE 'data/f.csv' PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' DAY)",
        "SELECT * FROM TUMBLE(DATA => TABLE 'data/f.csv', TIMECOL => DESCRIPTOR(ts), SIZE => 1h)",
        "SELECT * FROM TUMBLE((SELECT * FROM 'data/f.csv'), ts, 1h)",
        "SELECT * FROM read_csv('data/f.csv')",
    ],
)
def test_a_path_is_a_table(sql: str) -> None:
    (table,) = tables(sql)
    assert table.name == "'data/f.csv'"
    assert name_of_columns(table) == "f"


def test_a_join_takes_paths_at_both_sides() -> None:
    result = tables("SELECT * FROM 'a.csv' JOIN 'b.csv' USING (k)")
    assert [table.name for table in result] == ["'a.csv'", "'b.csv'"]


def test_globs_have_no_name_for_their_columns() -> None:
    (table,) = tables("SELECT * FROM 'logs/*.parquet'")
    assert name_of_columns(table) == "'logs/*.parquet'"


def test_arguments_of_duckdbs_functions_become_options() -> None:
    (table,) = tables(
        "SELECT * FROM read_csv(['a.csv', 'b.csv'], delim = ';', header = true, "
        "nullstr = ['n/a', '-'], hive_partitioning = true)"
    )
    assert table.name == "'{a.csv,b.csv}'"
    assert dict(table.meta[TABLE_OPTIONS].pairs) == {
        "format": "csv",
        "csv.field-delimiter": ";",
        "header": "true",
        "csv.null-literals": "n/a|-",
    }


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM ''", "the file path is empty"),
        ("SELECT * FROM read_csv()", "read_csv requires a file path"),
        ("SELECT * FROM read_csv(path)", "read_csv requires a file path or a list"),
        ("SELECT * FROM read_csv('f.csv', 1)", "takes one path, followed by name = value"),
        ("SELECT * FROM read_csv('f.csv', delm = ';')", "unknown argument delm of read_csv"),
        ("INSERT INTO 'f.csv' SELECT 1", "cannot insert into files by path"),
        ("SUMMARIZE", "SUMMARIZE requires a table, a file path or a query"),
    ],
)
def test_invalid_paths_are_refused_at_their_position(sql: str, message: str) -> None:
    with pytest.raises(SqlSyntaxError, match=message) as raised:
        parse_statement(sql)
    assert raised.value.position is not None


def test_statements_about_a_table_take_a_path() -> None:
    described = parse_statement("DESCRIBE 'f.csv'")
    assert isinstance(described, Describe)
    assert described.name == ("'f.csv'",)
    shown = parse_statement("SHOW CREATE TABLE 'f.csv'")
    assert isinstance(shown, ShowCreateTable)
    assert shown.name == ("'f.csv'",)
    for sql in ("SUMMARIZE 'f.csv'", "SUMMARIZE SELECT * FROM 'f.csv'", "SUMMARIZE FROM 'f.csv'"):
        summarised = parse_statement(sql)
        assert isinstance(summarised, Summarize)
        assert [t.name for t in summarised.ast.find_all(exp.Table)] == ["'f.csv'"]


@pytest.mark.parametrize(
    ("arguments", "state"),
    [
        ("'/ck/t'", StateTable("/ck/t")),
        ("'/ck/t', version => 12", StateTable("/ck/t", version=12)),
        ("'s3a://b/it''s', version => 1, OPERATOR => 0", StateTable("s3a://b/it's", 0, 1)),
    ],
)
def test_a_state_is_a_table_of_a_name(arguments: str, state: StateTable) -> None:
    table = parse_query(f"SELECT * FROM TABLE(STATE({arguments})) AS s").args["from_"].this
    assert table.alias == "s"
    assert state_of_name(table.name) == state
    assert state_of_name(name_of_state(state)) == state


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "STATE requires the directory of a checkpoint"),
        ("t", "STATE requires the directory of a checkpoint"),
        ("'t', 3", "STATE takes a directory, then operator => number and version => number"),
        (
            "'t', batch => 3",
            "STATE takes a directory, then operator => number and version => number",
        ),
        ("'t', version => 'x'", "version must be a whole number"),
        (
            "'t', version => 1, version => 2",
            "STATE takes a directory, then operator => number and version => number",
        ),
    ],
)
def test_wrong_arguments_of_a_state_have_a_place(arguments: str, message: str) -> None:
    with pytest.raises(SqlwinError) as caught:
        parse_query(f"SELECT * FROM TABLE(STATE({arguments}))")
    assert caught.value.message == message and caught.value.position


def test_show_state_takes_a_directory() -> None:
    statement = parse_statement("SHOW STATE OF '/ck/t'")
    assert isinstance(statement, ShowState) and statement.directory == "/ck/t"
    with pytest.raises(SqlwinError, match="requires the directory of a checkpoint"):
        parse_statement("SHOW STATE OF t")


def test_backslashes_of_regular_expressions_stay() -> None:
    for text in (r"'(?<a>\d+) \[it''s\]'", r"'(?<a>\\d+) \\[it\'s\\]'", r'r"(?<a>\d+) \[it\'s\]"'):
        assert pattern_value(text).replace(r"\'", "'") == r"(?<a>\d+) \[it's\]"


def test_arguments_of_readers_are_options_of_their_format() -> None:
    (text,) = tables(r"SELECT * FROM read_text('f', pattern => '(?<a>\d+)', ignore_errors => true)")
    assert text.meta[TABLE_OPTIONS].pairs == (
        ("format", "text"),
        ("text.pattern", r"(?<a>\d+)"),
        ("text.ignore-parse-errors", "true"),
    )
    (result,) = tables("SELECT * FROM read_json('f', ignore_errors = true, records = 'data')")
    assert result.meta[TABLE_OPTIONS].pairs[1:] == (
        ("json.ignore-parse-errors", "true"),
        ("json.records", "data"),
    )
    (csv,) = tables("SELECT * FROM read_csv('f', skip = 3, comment = '//')")
    assert csv.meta[TABLE_OPTIONS].pairs[1:] == (("csv.skip-lines", "3"), ("csv.comment", "//"))


def test_a_path_may_have_options_where_it_is_described() -> None:
    described = parse_statement("DESCRIBE 'f.csv' /*+ OPTIONS('header' = 'true') */")
    assert isinstance(described, Describe)
    assert described.options == (("header", "true"),)
    shown = parse_statement("SHOW CREATE TABLE read_csv('f.csv', skip = 1)")
    assert isinstance(shown, ShowCreateTable)
    assert ("csv.skip-lines", "1") in shown.options


def test_date_plus_time_of_day_becomes_a_column_of_the_data() -> None:
    sql = "SELECT * FROM TUMBLE('f.csv', d + `t`, 1h)"
    query = parse_query(sql)
    call = next(iter(query.find_all(WindowFunctionCall)))
    assert call.args["timecol"].name == "d + t"
    assert "CAST(CAST(d AS DATE) AS STRING)" in call.args["data"].sql("spark")
    with pytest.raises(SqlSyntaxError, match="only two columns can be added"):
        parse_query("SELECT * FROM TUMBLE('f.csv', d + 1, 1h)")
