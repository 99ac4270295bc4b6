"""Statements of Flink and others that sqlwin does not run: errors with an equivalent."""

from __future__ import annotations

import pytest

from runtime.connectors.registry import open_table
from runtime.errors import SqlwinError
from runtime.spark.messages import error_text
from runtime.spec.table import TableSpec
from sqlwin.statements import nodes
from sqlwin.statements.parse import parse_statement
from sqlwin.statements.split import split_script

PATTERN = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.v AS v PATTERN ({}) DEFINE B AS B.v > 1)"
REFUSED = {
    PATTERN.format("A B+"): ("MATCH_RECOGNIZE is not supported", "LAG and LEAD"),
    PATTERN.format("A B* C{2,}?"): ("MATCH_RECOGNIZE is not supported", "LAG and LEAD"),
    "SELECT * FROM t LEFT ASOF JOIN u ON t.k = u.k": ("LEFT ASOF JOIN", "ASOF LEFT JOIN"),
    "SELECT * FROM t FULL ASOF JOIN u ON t.k = u.k": ("FULL ASOF JOIN", "ASOF LEFT JOIN"),
    "CREATE CATALOG c WITH ('type' = 'hive')": (
        "sqlwin uses Spark's catalogs",
        "spark.sql.catalog.NAME",
    ),
    "ALTER CATALOG c SET ('x' = 'y')": ("sqlwin uses Spark's catalogs", "spark.sql.catalog.NAME"),
    "DROP CATALOG c": ("sqlwin uses Spark's catalogs", "spark.sql.catalog.NAME"),
    "SHOW CURRENT CATALOG": ("SHOW CURRENT CATALOG is not supported", "SELECT current_catalog()"),
    "LOAD MODULE hive WITH ('hive-version' = '3')": ("modules are not supported", "SHOW FUNCTIONS"),
    "UNLOAD MODULE hive": ("modules are not supported", "SHOW FUNCTIONS"),
    "USE MODULES hive, core": ("modules are not supported", "SHOW FUNCTIONS"),
    "SHOW MODULES": ("modules are not supported", "SHOW FUNCTIONS"),
    "SHOW FULL MODULES": ("modules are not supported", "SHOW FUNCTIONS"),
    "SHOW JARS": ("SHOW JARS", "LIST JARS"),
    "REMOVE JAR 'a.jar'": ("stays loaded", "remove the statement"),
    "CREATE FUNCTION f AS 'a.B' LANGUAGE JAVA": ("Flink functions", "register_function"),
    "CREATE TEMPORARY FUNCTION f AS 'a.B' LANGUAGE SCALA": ("Flink functions", "USING JAR"),
    "CREATE TEMPORARY SYSTEM FUNCTION f AS 'a.B'": ("Flink functions", "register_function"),
    "CREATE FUNCTION f AS 'a.b' LANGUAGE PYTHON": ("does not support Python", "register_function"),
    "ALTER FUNCTION f AS 'a.B'": ("ALTER FUNCTION is not supported", "CREATE OR REPLACE FUNCTION"),
    "DROP TEMPORARY SYSTEM FUNCTION f": (
        "system functions of a session",
        "DROP TEMPORARY FUNCTION",
    ),
    "COMPILE PLAN 'p' FOR INSERT INTO t SELECT * FROM u": ("compiled plans", "checkpoint"),
    "COMPILE AND EXECUTE PLAN 'p' FOR INSERT INTO t SELECT * FROM u": ("compiled plans", "INSERT"),
    "EXECUTE PLAN 'p'": ("compiled plans", "INSERT"),
    "CREATE MODEL m INPUT (a STRING) OUTPUT (b STRING)": (
        "models are not supported",
        "register_function",
    ),
    "ALTER MODEL m SET ('x' = 'y')": ("models are not supported", "register_function"),
    "DROP MODEL m": ("models are not supported", "register_function"),
    "DESCRIBE MODEL m": ("models are not supported", "register_function"),
    "DESCRIBE JOB '7'": ("DESCRIBE JOB is not supported", "SHOW STREAMS"),
    "CREATE CONNECTION c WITH ('x' = 'y')": ("connections are not supported", "CREATE TABLE"),
    "CREATE TABLE b (ts TIMESTAMP(3), WATERMARK wk FOR ts AS withOffset(ts, 1000)) "
    "WITH ('connector' = 'memory')": ("a watermark cannot have a name", "ts - INTERVAL '1' SECOND"),
    "CREATE TABLE b (ts TIMESTAMP(3), WATERMARK FOR ts AS withOffset(ts, 1000)) "
    "WITH ('connector' = 'memory')": ("withOffset is not supported", "ts - INTERVAL '1' SECOND"),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_statements_of_flink_name_an_equivalent(sql: str) -> None:
    message, hint = REFUSED[sql]
    with pytest.raises(SqlwinError) as caught:
        parse_statement(sql)
    error = caught.value
    assert message in error.message
    assert hint in (error.hint or "")
    assert error.position is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t AS asof JOIN u ON asof.k = u.k",
        "SELECT asof FROM t ORDER BY asof",
        "SELECT * FROM model",
        "CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE SQL RETURN x + 1",
        "DESCRIBE model",
        "SHOW CURRENT DATABASE",
        "CREATE TABLE t (watermark INT, quit INT) WITH ('connector' = 'memory')",
    ],
)
def test_the_same_words_elsewhere_are_read(sql: str) -> None:
    assert isinstance(parse_statement(sql), nodes.Statement)


@pytest.mark.parametrize("word", ["QUIT", "quit", "EXIT"])
def test_quit_ends_a_script(word: str) -> None:
    parts = split_script(f"SELECT 1;\n{word};\nSELECT 2")
    assert [part.text for part in parts] == ["SELECT 1"]
    assert split_script(word) == []
    assert len(split_script("SELECT quit; SELECT exit FROM t")) == 2


@pytest.mark.parametrize(
    ("connector", "hint"),
    [
        ("mysql-cdc", "'connector' = 'kafka', 'format' = 'debezium-json'"),
        ("elasticsearch-7", "'connector' = 'spark'"),
        ("kinesis", "'connector' = 'spark'"),
        ("filesytem", "did you mean 'filesystem'?"),
        ("nothing like it", "available connectors: filesystem"),
    ],
)
def test_connectors_of_flink_name_an_equivalent(connector: str, hint: str) -> None:
    with pytest.raises(SqlwinError) as caught:
        open_table(TableSpec("t", connector, (), (("connector", connector),)))
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("proposal", "hint"),
    [
        ("`k`, `w$end`, `w$start`", "available columns: `k`"),
        ("`count(1)`, `t`.`window_start`", "available columns: `t.window_start`"),
        ("`count(1)`", "name the expression: COUNT(*) AS n"),
        ("`$f0`, `$agg1`", None),
    ],
)
def test_internal_names_are_not_proposed(proposal: str, hint: str | None) -> None:
    text = error_text("UNRESOLVED_COLUMN", {"objectName": "`zz`", "proposal": proposal})
    assert text is not None and text.hint == hint


def test_distinct_with_over_names_the_alternative() -> None:
    text = error_text("DISTINCT_WINDOW_FUNCTION_UNSUPPORTED", {"windowExpr": "x"})
    assert text is not None and "SIZE(COLLECT_SET(x) OVER (...))" in (text.hint or "")
