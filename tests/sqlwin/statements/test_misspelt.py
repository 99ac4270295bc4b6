"""Misspelt keywords are found without Spark, at their place."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from runtime.errors import SqlSyntaxError
from sqlwin.statements import nodes
from sqlwin.statements.parse import parse_statement
from sqlwin.statements.spark_keywords import SPARK_KEYWORDS

WINDOW = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))"


@pytest.mark.parametrize(
    ("sql", "word", "keyword"),
    [
        ("SELEC * FROM t", "SELEC", "SELECT"),
        ("CRATE VIEW v AS SELECT 1", "CRATE", "CREATE"),
        ("SELECT k FORM t", "FORM", "FROM"),
        ("SELECT k FORM 'a.csv'", "FORM", "FROM"),
        ("SELECT k FROM t WERE v > 1", "WERE", "WHERE"),
        ("SELECT k FROM t GROUPBY k", "GROUPBY", "GROUP BY"),
        ("SELECT k FROM t ODRER BY k LIMT 3", "ODRER", "ORDER"),
        ("SELECT k FROM t a LEFT JION t b ON a.k = b.k", "JION", "JOIN"),
        ("SELECT CASE WEHN v > 1 THEN 1 END FROM t", "WEHN", "WHEN"),
        (f"SELECT window_end FORM {WINDOW}", "FORM", "FROM"),
        (f"SELECT * FROM {WINDOW.replace('HOUR', 'HUOR')}", "HUOR", "HOUR"),
        (f"SELECT * FROM {WINDOW.replace('TABLE t', 'TABEL t')}", "TABEL", "TABLE"),
        ("EXPLAIN SELECT k FORM t", "FORM", "FROM"),
        ("INSERT INOT t SELECT 1", "INOT", "INTO"),
        ("CREATE TABEL t (a INT) WITH ('connector' = 'blackhole')", "TABEL", "TABLE"),
        ("SHOW TABELS", "TABELS", "TABLES"),
    ],
)
def test_a_misspelt_keyword_is_an_error_at_its_place(sql: str, word: str, keyword: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(sql)
    error = caught.value
    assert error.message == f"unexpected `{word}`"
    assert error.hint == f"did you mean {keyword}?"
    assert error.position is not None
    assert error.position.offset == sql.index(word)
    assert error.position.length == len(word)


@pytest.mark.parametrize(
    "sql",
    [
        "ANALYZE TABLE t COMPUTE STATISTICS",
        "SHOW USER FUNCTIONS",
        "REFRESH TABLE t",
        "VACUUM t RETAIN 168 HOURS",
        "OPTIMIZE t ZORDER BY (k)",
        "RESTORE TABLE t TO VERSION AS OF 1",
        "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN DELETE",
        "CREATE TABLE t USING parquet AS SELECT 1 AS a",
        "SELECT TRANSFORM(k) USING 'cat' AS (form STRING) FROM t",
        "DESCRIBE DATABASE EXTENDED wind",
        "DROP DATABASE limi",
        "SHOW COLUMNS IN t",
        "SHOW DATABASES",
        "SHOW CATALOGS",
        "SHOW SCHEMAS LIKE 'a*'",
        "SHOW PARTITIONS t",
        "DROP SCHEMA s",
        "DROP FUNCTION f",
    ],
)
def test_statements_of_spark_go_to_spark(sql: str) -> None:
    assert isinstance(parse_statement(sql), nodes.SparkStatement)


@pytest.mark.parametrize("name", ["form", "tabel", "wher", "limt", "havin"])
def test_names_that_resemble_keywords_remain_names(name: str) -> None:
    statement = parse_statement(f"SELECT {name} AS {name} FROM {name} WHERE {name}.{name} > 1")
    assert isinstance(statement, nodes.Query)


def test_drop_without_a_kind_is_an_error_without_spark() -> None:
    with pytest.raises(SqlSyntaxError, match="DROP requires TABLE or VIEW"):
        parse_statement("DROP t")


def test_a_query_of_files_has_sqlwins_own_error() -> None:
    with pytest.raises(SqlSyntaxError, match="unexpected `BU`"):
        parse_statement("SELECT k FROM 'a.csv' ORDER BU k")


@pytest.mark.long
def test_all_keywords_of_spark_are_known(spark: SparkSession) -> None:
    rows = spark.sql("SELECT keyword FROM sql_keywords()").collect()
    assert {row[0] for row in rows} - SPARK_KEYWORDS == set()
