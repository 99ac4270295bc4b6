"""What Flink and others write and sqlwin does not run says what to write instead."""

from __future__ import annotations

import pytest

from runtime.connectors.registry import connector_of
from runtime.errors import SqlwinError
from runtime.spark.messages import error_text
from runtime.spec.table import TableSpec
from sqlwin.statements import nodes
from sqlwin.statements.parse import parse_statement
from sqlwin.statements.split import split_script

PATTERN = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.v AS v PATTERN ({}) DEFINE B AS B.v > 1)"
REFUSED = {
    PATTERN.format("A B+"): ("MATCH_RECOGNIZE is not there", "LAG and LEAD"),
    PATTERN.format("A B* C{2,}?"): ("MATCH_RECOGNIZE is not there", "LAG and LEAD"),
    "SELECT * FROM t ASOF JOIN u ON t.k = u.k AND t.ts >= u.ts": ("ASOF JOIN", "MAX_BY(u.v, u.ts)"),
    "SELECT * FROM t ASOF LEFT JOIN u USING (k, ts)": ("ASOF JOIN", "MAX_BY(u.v, u.ts)"),
    "SELECT * FROM t LEFT ASOF JOIN u ON t.k = u.k": ("ASOF JOIN", "MAX_BY(u.v, u.ts)"),
    "CREATE CATALOG c WITH ('type' = 'hive')": ("catalogs are Spark's", "spark.sql.catalog.NAME"),
    "ALTER CATALOG c SET ('x' = 'y')": ("catalogs are Spark's", "spark.sql.catalog.NAME"),
    "DROP CATALOG c": ("catalogs are Spark's", "spark.sql.catalog.NAME"),
    "SHOW CURRENT CATALOG": ("SHOW CURRENT takes DATABASE", "SELECT current_catalog()"),
    "LOAD MODULE hive WITH ('hive-version' = '3')": ("there are no modules", "SHOW FUNCTIONS"),
    "UNLOAD MODULE hive": ("there are no modules", "SHOW FUNCTIONS"),
    "USE MODULES hive, core": ("there are no modules", "SHOW FUNCTIONS"),
    "SHOW MODULES": ("there are no modules", "SHOW FUNCTIONS"),
    "SHOW FULL MODULES": ("there are no modules", "SHOW FUNCTIONS"),
    "SHOW JARS": ("SHOW JARS", "LIST JARS"),
    "REMOVE JAR 'a.jar'": ("stays loaded", "leave it out"),
    "CREATE FUNCTION f AS 'a.B' LANGUAGE JAVA": ("functions of Flink", "register_function"),
    "CREATE TEMPORARY FUNCTION f AS 'a.B' LANGUAGE SCALA": ("functions of Flink", "USING JAR"),
    "CREATE TEMPORARY SYSTEM FUNCTION f AS 'a.B'": ("functions of Flink", "register_function"),
    "CREATE FUNCTION f AS 'a.b' LANGUAGE PYTHON": ("no functions in Python", "register_function"),
    "ALTER FUNCTION f AS 'a.B'": ("is not altered", "CREATE OR REPLACE FUNCTION"),
    "DROP TEMPORARY SYSTEM FUNCTION f": ("no system functions", "DROP TEMPORARY FUNCTION"),
    "COMPILE PLAN 'p' FOR INSERT INTO t SELECT * FROM u": ("plans are not compiled", "checkpoint"),
    "COMPILE AND EXECUTE PLAN 'p' FOR INSERT INTO t SELECT * FROM u": ("plans are not", "INSERT"),
    "EXECUTE PLAN 'p'": ("plans are not compiled", "INSERT"),
    "CREATE MODEL m INPUT (a STRING) OUTPUT (b STRING)": ("no models", "register_function"),
    "ALTER MODEL m SET ('x' = 'y')": ("no models", "register_function"),
    "DROP MODEL m": ("no models", "register_function"),
    "DESCRIBE MODEL m": ("no models", "register_function"),
    "DESCRIBE JOB '7'": ("described together", "SHOW STREAMS"),
    "CREATE CONNECTION c WITH ('x' = 'y')": ("no connections", "CREATE TABLE"),
    "CREATE TABLE b (ts TIMESTAMP(3), WATERMARK wk FOR ts AS withOffset(ts, 1000)) "
    "WITH ('connector' = 'memory')": ("a watermark has no name", "ts - INTERVAL '1' SECOND"),
    "CREATE TABLE b (ts TIMESTAMP(3), WATERMARK FOR ts AS withOffset(ts, 1000)) "
    "WITH ('connector' = 'memory')": ("withOffset is Blink's", "ts - INTERVAL '1' SECOND"),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_a_statement_of_flink_says_what_to_write(sql: str) -> None:
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
        ("jdbc", "'connector' = 'spark', 'format' = 'jdbc'"),
        ("upsert-kafka", "'connector' = 'kafka'"),
        ("mysql-cdc", "Debezium"),
        ("elasticsearch-7", "'connector' = 'spark'"),
        ("kinesis", "'connector' = 'spark'"),
        ("filesytem", "did you mean 'filesystem'?"),
        ("nothing like it", "available connectors: filesystem"),
    ],
)
def test_a_connector_of_flink_says_what_to_write(connector: str, hint: str) -> None:
    with pytest.raises(SqlwinError) as caught:
        connector_of(TableSpec("t", connector, (), (("connector", connector),)))
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("proposal", "hint"),
    [
        ("`k`, `w$end`, `w$start`", "there is `k`"),
        ("`count(1)`, `t`.`window_start`", "there is `t.window_start`"),
        ("`count(1)`", "give the expression a name: COUNT(*) AS n"),
        ("`$f0`, `$agg1`", None),
    ],
)
def test_internal_names_are_not_proposed(proposal: str, hint: str | None) -> None:
    text = error_text("UNRESOLVED_COLUMN", {"objectName": "`zz`", "proposal": proposal})
    assert text is not None and text.hint == hint


def test_distinct_over_says_what_counts() -> None:
    text = error_text("DISTINCT_WINDOW_FUNCTION_UNSUPPORTED", {"windowExpr": "x"})
    assert text is not None and "SIZE(COLLECT_SET(x) OVER (...))" in (text.hint or "")
