"""Splitting a script, and parsing each statement."""

from __future__ import annotations

import pytest

from planner.sql.nodes import WindowFunctionCall, position_of
from runtime.errors import SqlSyntaxError
from runtime.spec.table import TableColumn, Watermark
from sqlwin.parser.parser import to_spark
from sqlwin.statements import nodes
from sqlwin.statements.parse import parse_statement
from sqlwin.statements.split import split_script, words

TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))"


def fields(statement: nodes.Statement) -> dict[str, object]:
    common = ("text", "offset", "tokens")
    return {key: value for key, value in vars(statement).items() if key not in common}


def error_of(text: str) -> SqlSyntaxError:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(text)
    return caught.value


# -- scripts ------------------------------------------------------------------------------------


def test_semicolons_split_a_script_unless_they_are_quoted_or_in_comments() -> None:
    script = "-- first; one\nSELECT ';', `a;b` /* ; /* ; */ ; */, \";\";\n;;\n  SELECT 2 -- last;\n"
    parts = split_script(script)
    assert [part.text for part in parts] == [
        "SELECT ';', `a;b` /* ; /* ; */ ; */, \";\"",
        "SELECT 2",
    ]
    assert [part.line for part in parts] == [2, 4]
    assert all(script.startswith(part.text, part.offset) for part in parts)


@pytest.mark.parametrize("script", ["", " ;\n; ", "-- nothing\n", "/* nothing */;"])
def test_a_script_without_statements_is_empty(script: str) -> None:
    assert split_script(script) == []


@pytest.mark.parametrize(
    "block",
    [
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT CASE WHEN x THEN 1 END; END",
        "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END",
        "EXPLAIN PLAN FOR STATEMENT SET BEGIN INSERT INTO a SELECT 1; END",
        "BEGIN DECLARE x INT; IF x = 1 THEN SELECT CASE WHEN x THEN 1 END; END IF; BEGIN SELECT 2; END; END",
    ],
)
def test_the_semicolons_of_a_block_stay_in_it(block: str) -> None:
    assert [part.text for part in split_script(f"SELECT 1; {block}; SELECT 2")] == [
        "SELECT 1",
        block,
        "SELECT 2",
    ]


def test_a_column_named_begin_or_end_is_no_block() -> None:
    assert len(split_script("SELECT begin, t.end FROM t; SELECT 2; SELECT 3")) == 3


def test_an_unclosed_string_is_reported_at_its_position() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        split_script("SELECT 1;\nSELECT 'a;\n")
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (2, 8)


def test_words_are_names_and_keywords_but_no_strings() -> None:
    (part,) = split_script("SELECT 'x' FROM `My Table` JOIN U")
    assert words(part.tokens) == {"select", "from", "my table", "join", "u"}


# -- settings and listings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("SET 'k' = 'v'", "k", "v"),
        ("SET 'k' = 'it''s';", "k", "it's"),
        ("set a.b-c = 10 s", "a.b-c", "10 s"),
        ("SET spark.sql.x=1", "spark.sql.x", "1"),
        ("SET `a.b` = x", "a.b", "x"),
        ("SET k =", "k", ""),
        ("SET k = -- why\n 'v'", "k", "v"),
        ("SET 'k'", "k", None),
        ("SET", None, None),
        ("SET -v", None, None),
    ],
)
def test_set_keeps_the_text_of_values(text: str, key: str | None, value: str | None) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, nodes.Set)
    assert (statement.key, statement.value) == (key, value)


def test_statements_about_the_session_have_their_kind_and_name() -> None:
    assert fields(parse_statement("RESET")) == {"key": None}
    reset = parse_statement("RESET 'a.b'")
    assert isinstance(reset, nodes.Reset) and reset.key == "a.b"
    tables = parse_statement("SHOW TABLES LIKE 'a%'")
    assert isinstance(tables, nodes.ShowNames) and (tables.kind, tables.like) == ("TABLES", "a%")
    for kind in ("VIEWS", "FUNCTIONS", "MATERIALIZED TABLES"):
        shown = parse_statement(f"SHOW {kind}")
        assert isinstance(shown, nodes.ShowNames) and (shown.kind, shown.like) == (kind, None)
    shown = parse_statement("SHOW CREATE TABLE a.`b c`")
    assert isinstance(shown, nodes.ShowCreateTable) and shown.name == ("a", "b c")
    described = parse_statement("DESC EXTENDED t")
    assert isinstance(described, nodes.Describe)
    assert described.name == ("t",)
    drop = parse_statement("DROP TEMPORARY VIEW IF EXISTS a.v")
    assert isinstance(drop, nodes.Drop)
    assert fields(drop) == {
        "kind": "VIEW",
        "name": ("a", "v"),
        "if_exists": True,
        "temporary": True,
    }


def test_use_catalog_is_translated_for_spark() -> None:
    use = parse_statement("USE CATALOG `my cat`")
    assert isinstance(use, nodes.Use) and isinstance(use, nodes.SparkStatement)
    assert (use.kind, use.name, use.spark_text) == ("CATALOG", ("my cat",), "SET CATALOG `my cat`")
    plain = parse_statement("USE a.b")
    assert isinstance(plain, nodes.Use) and plain.spark_text == "USE `a`.`b`"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE TABLE t AS SELECT 1",
        "CREATE TABLE a LIKE b",
        "CREATE TEMP VIEW v USING csv OPTIONS (path 'x')",
        "CREATE FUNCTION f AS 'x'",
        "DROP TABLE t PURGE",
        "SHOW TABLES FROM db",
        "DESCRIBE FUNCTION f",
        "SET TIME ZONE 'UTC'",
        "ALTER TABLE t ADD COLUMN x INT",
        "CACHE TABLE t",
        "INSERT INTO t BY NAME SELECT 1 AS a",
        "INSERT OVERWRITE DIRECTORY '/x' SELECT 1",
        "VALUES (1)",
        "SELECT a ::: b",
    ],
)
def test_other_statements_go_to_spark_unchanged(text: str) -> None:
    statement = parse_statement(text)
    assert type(statement) is nodes.SparkStatement
    assert statement.spark_text == text


# -- queries ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "(SELECT 1) UNION SELECT 2",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "FROM t SELECT a",
    ],
)
def test_a_query_is_a_query(text: str) -> None:
    assert isinstance(parse_statement(text), nodes.Query)


def test_a_query_with_a_window_function_must_read() -> None:
    error = error_of("SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY) WHERE a b")
    assert error.message == "unexpected `b`"
    assert error.position is not None and error.position.column == 73


def test_a_window_function_in_a_statement_of_sparks_is_refused() -> None:
    error = error_of(f"CACHE TABLE c AS SELECT * FROM {TUMBLE}")
    assert error.message == "TUMBLE is not supported in this statement, which Spark runs"


def test_two_statements_at_once_are_refused() -> None:
    assert error_of("SELECT 1; SELECT 2").message == "expected a single statement"


def test_insert_has_target_columns_and_query() -> None:
    insert = parse_statement(
        "INSERT OVERWRITE TABLE d.t PARTITION (dt = '2024') (a, `b c`) SELECT * FROM s;"
    )
    assert isinstance(insert, nodes.Insert)
    assert (insert.name, insert.columns, insert.overwrite) == (("d", "t"), ("a", "b c"), True)
    assert insert.partition == "PARTITION(dt = '2024')"
    assert to_spark(insert.ast) == "SELECT * FROM s"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("INSERT INTO t VALUES (1, 'x'), (2, 'y')", "SELECT * FROM VALUES (1, 'x'), (2, 'y')"),
        ("INSERT INTO t (SELECT 1)", "SELECT 1"),
        ("INSERT INTO t TABLE u", "SELECT * FROM u"),
        (
            "WITH a AS (SELECT 1) INSERT INTO t WITH b AS (SELECT 2) SELECT * FROM a, b",
            "WITH a AS (SELECT 1), b AS (SELECT 2) SELECT * FROM a, b",
        ),
    ],
)
def test_insert_takes_every_kind_of_query(text: str, query: str) -> None:
    insert = parse_statement(text)
    assert isinstance(insert, nodes.Insert)
    assert to_spark(insert.ast) == query


def test_a_statement_set_is_its_inserts() -> None:
    script = "SELECT 1;\nEXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;"
    part = split_script(script)[1]
    statement = parse_statement(part.text, part.offset)
    assert isinstance(statement, nodes.StatementSet)
    assert [insert.name for insert in statement.inserts] == [("a",), ("b",)]
    assert all(script.startswith(insert.text, insert.offset) for insert in statement.inserts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;", "unterminated statement set"),
        ("EXECUTE STATEMENT SET BEGIN SELECT 1; END", "only INSERT"),
        ("BEGIN STATEMENT SET; END", "needs an INSERT"),
    ],
)
def test_an_invalid_statement_set_is_refused(text: str, message: str) -> None:
    assert message in error_of(text).message


@pytest.mark.parametrize(
    ("prefix", "details"),
    [
        ("EXPLAIN", ()),
        ("EXPLAIN PLAN FOR", ()),
        ("EXPLAIN ESTIMATED_COST, CHANGELOG_MODE", ("ESTIMATED_COST", "CHANGELOG_MODE")),
        ("EXPLAIN FORMATTED", ("FORMATTED",)),
    ],
)
def test_explain_wraps_a_statement(prefix: str, details: tuple[str, ...]) -> None:
    explain = parse_statement(f"{prefix} SELECT 1", offset=100)
    assert isinstance(explain, nodes.Explain)
    assert explain.details == details
    assert isinstance(explain.statement, nodes.Query)
    assert explain.statement.text == "SELECT 1"
    assert explain.statement.offset == 100 + len(prefix) + 1


def test_an_error_inside_explain_has_its_place_in_the_whole_statement() -> None:
    text = "EXPLAIN SELECT * FROM TUMBLE(TABLE t)"
    error = error_of(text)
    assert error.position is not None and error.sql == text
    assert text[error.position.offset :].startswith("TUMBLE")


# -- CREATE TABLE and CREATE VIEW -----------------------------------------------------------------


def test_create_table_is_read_whole() -> None:
    table = parse_statement(
        """CREATE TEMPORARY TABLE IF NOT EXISTS db.bids (
             item STRING NOT NULL COMMENT 'what',
             price DECIMAL(10, 2),
             place ROW<x INT, y ARRAY<TIMESTAMP(3)>>,
             bidtime TIMESTAMP(3),
             seen TIMESTAMP_LTZ(3),
             bare TIMESTAMP,
             path STRING METADATA FROM 'file.path' VIRTUAL,
             `offset` BIGINT METADATA,
             day_ AS CAST(bidtime AS DATE) COMMENT 'computed',
             WATERMARK FOR bidtime AS bidtime - INTERVAL '5' SECOND(2),
             PRIMARY KEY (item) NOT ENFORCED
           )
           COMMENT 'the bids'
           PARTITIONED BY (item)
           WITH ('connector' = 'filesystem', 'json' = '{"a":""}', 'sep' = r'\\t')"""
    )
    assert isinstance(table, nodes.CreateTable)
    assert table.name == ("db", "bids")
    assert table.columns == (
        TableColumn("item", "STRING", nullable=False, comment="what"),
        TableColumn("price", "DECIMAL(10, 2)"),
        TableColumn("place", "STRUCT<x: INT, y: ARRAY<TIMESTAMP_NTZ>>"),
        TableColumn("bidtime", "TIMESTAMP_NTZ"),
        TableColumn("seen", "TIMESTAMP"),
        TableColumn("bare", "TIMESTAMP_NTZ"),
        TableColumn("path", "STRING", metadata="file.path"),
        TableColumn("offset", "BIGINT", metadata="offset"),
        TableColumn("day_", None, comment="computed", computed="CAST(bidtime AS DATE)"),
    )
    assert table.watermark == Watermark("bidtime", "bidtime - INTERVAL '5' SECOND")
    assert table.options == (("connector", "filesystem"), ("json", '{"a":""}'), ("sep", "\\t"))
    assert (table.primary_key, table.partitioned_by) == (("item",), ("item",))
    assert (table.comment, table.temporary, table.if_not_exists) == ("the bids", True, True)


@pytest.mark.parametrize(
    ("flink", "spark_type"),
    [
        ("INTEGER", "INT"),
        ("VARCHAR(10)", "STRING"),
        ("CHAR(3)", "STRING"),
        ("BYTES", "BINARY"),
        ("VARBINARY(8)", "BINARY"),
        ("DEC", "DECIMAL"),
        ("NUMERIC(5)", "DECIMAL(5)"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("MAP<STRING, TIMESTAMP_LTZ(3)>", "MAP<STRING, TIMESTAMP>"),
        ("ROW(a VARCHAR(2) NOT NULL)", "STRUCT<a: STRING NOT NULL>"),
    ],
)
def test_column_types_are_sparks(flink: str, spark_type: str) -> None:
    table = parse_statement(f"CREATE TABLE t (a {flink}) WITH ('connector' = 'x')")
    assert isinstance(table, nodes.CreateTable)
    assert table.columns[0].type == spark_type


@pytest.mark.parametrize(
    "columns",
    [
        "(s STRING, t AS TO_TIMESTAMP(s), WATERMARK FOR t AS t - INTERVAL '5' SECOND)",
        "(t TIMESTAMP_LTZ(3), WATERMARK FOR t AS t - INTERVAL '1' DAY + INTERVAL '1' HOUR)",
        "(t TIMESTAMP(3), s STRING, WATERMARK FOR t AS CAST(s AS TIMESTAMP))",
        "(t TIMESTAMP(3), s STRING, WATERMARK FOR t AS COALESCE(t, TO_TIMESTAMP(s)))",
    ],
)
def test_a_watermark_is_any_expression_that_can_be_a_time(columns: str) -> None:
    table = parse_statement(f"CREATE TABLE t {columns} WITH ('connector' = 'datagen')")
    assert isinstance(table, nodes.CreateTable) and table.watermark is not None


def test_create_table_like_lists_the_excluded_parts() -> None:
    table = parse_statement(
        "CREATE TABLE a WITH ('k' = 'v') LIKE b (EXCLUDING ALL INCLUDING GENERATED)"
    )
    assert isinstance(table, nodes.CreateTable)
    assert table.like == ("b",)
    assert "OPTIONS" in table.like_excluding and "GENERATED" not in table.like_excluding


def test_create_table_like_adds_columns_without_options() -> None:
    table = parse_statement(
        "CREATE TABLE a (c AS v + 1, m STRING METADATA FROM 'file.name') LIKE b"
    )
    assert isinstance(table, nodes.CreateTable)
    assert (table.like, table.options) == (("b",), ())
    assert [column.name for column in table.columns] == ["c", "m"]


def test_create_table_as_keeps_the_places_of_its_query() -> None:
    text = f"CREATE OR REPLACE TABLE a WITH ('k' = 'v') AS SELECT * FROM {TUMBLE}"
    table = parse_statement(text)
    assert isinstance(table, nodes.CreateTable) and table.or_replace and table.as_query is not None
    function = table.as_query.find(WindowFunctionCall)
    assert function is not None
    position = position_of(function, text)
    assert position is not None and position.offset == text.index(TUMBLE)


@pytest.mark.parametrize(
    ("body", "message", "place"),
    [
        ("(a MULTISET<INT>)", "unknown type MULTISET", "MULTISET"),
        ("(a TIME(3))", "the type TIME is not supported", "TIME(3)"),
        ("(a FOO)", "unknown type FOO", "FOO"),
        ("(a ARRAY<TIME>)", "the type TIME is not supported", "ARRAY<TIME>"),
        ("(a DECIMAL(39, 2))", "invalid type DECIMAL(39, 2)", "DECIMAL(39, 2)"),
        ("(a TIMESTAMP(9))", "TIMESTAMP(9) is not supported", "TIMESTAMP(9)"),
        ("(a)", "column `a` has no type", ")"),
        ("(a INT, A INT)", "column `A` is declared twice", "A"),
        ("(a INT, WATERMARK FOR b AS b)", "WATERMARK FOR refers to `b`", "b"),
        (
            "(s STRING, WATERMARK FOR s AS s)",
            "a watermark must be a TIMESTAMP, but `s` is STRING",
            "s",
        ),
        (
            "(t TIMESTAMP(3), s STRING, WATERMARK FOR t AS s)",
            "a watermark must be a TIMESTAMP, but `s` is STRING",
            "t",
        ),
        (
            "(t TIMESTAMP(3), WATERMARK FOR t AS u - INTERVAL '1' SECOND)",
            "the watermark of `t` refers to `u`, which is not a column of the table",
            "t",
        ),
        (
            "(s STRING, t AS UPPER(s), WATERMARK FOR t AS t - INTERVAL '1' SECOND)",
            "a watermark must be a TIMESTAMP, but `t` is STRING",
            "t",
        ),
        (
            "(t TIMESTAMP(3), s STRING, WATERMARK FOR t AS CONCAT(s, ':00'))",
            "a watermark must be a TIMESTAMP, but `CONCAT(s, ':00')` is STRING",
            "t",
        ),
        (
            "(t TIMESTAMP(3), WATERMARK FOR t AS '5 seconds')",
            "a watermark must be a TIMESTAMP, but `'5 seconds'` is STRING",
            "t",
        ),
        (
            "(t TIMESTAMP(3), WATERMARK FOR t AS t, WATERMARK FOR t AS t)",
            "a table can have only one WATERMARK",
            "WATERMARK FOR t AS t",
        ),
        ("(a INT, PRIMARY KEY (b) NOT ENFORCED)", "PRIMARY KEY refers to `b`", "b"),
        ("(a INT) PARTITIONED BY (b)", "PARTITIONED BY refers to `b`", "b"),
        ("(a INT) FOO", "unexpected `FOO`", "FOO"),
        ("(a INT) WITH ('connector' = 'y')", "WITH is given twice", "WITH"),
        ("(a INT) COMMENT 'b' COMMENT 'c'", "COMMENT is given twice", "COMMENT"),
        ("(a INT,)", "expected the name of a column", ")"),
    ],
)
def test_an_invalid_create_table_is_reported_at_its_position(
    body: str, message: str, place: str
) -> None:
    error = error_of(f"CREATE TABLE t {body} WITH ('connector' = 'x')")
    assert message in error.message
    assert error.position is not None and error.sql is not None
    start = error.position.offset
    assert error.sql[start : start + error.position.length] == place


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("(a = 'b')", "the name of an option must be a string"),
        ("('a' = b)", "the value of 'a' must be a string"),
        ("('a' = 'b', 'a' = 'c')", "option 'a' is given twice"),
        ("('a' 'b')", "expected = but found"),
    ],
)
def test_options_are_pairs_of_strings(options: str, message: str) -> None:
    assert message in error_of(f"CREATE TABLE t (a INT) WITH {options}").message


def test_create_view_keeps_its_query_as_written() -> None:
    view = parse_statement(
        f"CREATE OR REPLACE TEMPORARY VIEW a.v (x, y COMMENT 'why') COMMENT 'c' AS SELECT *, 1 FROM {TUMBLE}"
    )
    assert isinstance(view, nodes.CreateView)
    assert (view.name, view.columns, view.comment) == (("a", "v"), ("x", "y"), "c")
    assert (view.or_replace, view.temporary, view.if_not_exists) == (True, True, False)
    assert view.query_text == f"SELECT *, 1 FROM {TUMBLE}"
    assert view.ast.find(WindowFunctionCall) is not None


def test_execute_before_a_statement_is_passed_over() -> None:
    statement = parse_statement("EXECUTE INSERT INTO a SELECT k FROM b")
    assert isinstance(statement, nodes.Insert)
    assert statement.name == ("a",)


def test_flink_s_first_catalog_and_database_are_spark_s() -> None:
    for text, spark_sql in (
        ("USE CATALOG default_catalog", "SET CATALOG spark_catalog"),
        ("USE default_catalog.default_database", "USE spark_catalog.default"),
        ("USE default_database", "USE spark_catalog.default"),
        ("USE other", "USE `other`"),
    ):
        statement = parse_statement(text)
        assert isinstance(statement, nodes.Use)
        assert statement.spark_text == spark_sql
