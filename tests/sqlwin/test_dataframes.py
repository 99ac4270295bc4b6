"""Every way to fetch a query's rows fails with sqlwin's errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
from pyspark.errors import PySparkException, PySparkTypeError
from pyspark.sql import DataFrame, SparkSession

import sqlwin
from runtime.spark.errors import is_caused_by_stopped_spark
from runtime.spark.session import is_stopped

T = TypeVar("T")
RESULTS: dict[str, Callable[[sqlwin.Result], object]] = {
    "rows": lambda result: result.rows,
    "batches": lambda result: list(result.batches()),
    "limited batches": lambda result: list(result.batches(1)),
    "to_arrow": lambda result: result.to_arrow(),
    "to_pandas": lambda result: result.to_pandas(),
    "to_polars": lambda result: result.to_polars(),
    "show": lambda result: result.show(),
    "html": lambda result: result._repr_html_(),
}
FRAMES: dict[str, Callable[[DataFrame], object]] = {
    "collect": lambda frame: frame.collect(),
    "toPandas": lambda frame: frame.toPandas(),
    "toArrow": lambda frame: frame.toArrow(),
    "show": lambda frame: frame.show(),
    "first": lambda frame: frame.first(),
    "head": lambda frame: frame.head(2),
    "take": lambda frame: frame.take(2),
    "tail": lambda frame: frame.tail(2),
    "toLocalIterator": lambda frame: list(frame.toLocalIterator()),
    "derived": lambda frame: frame.select("v").where("1 = 1").limit(3).collect(),
    "item": lambda frame: frame[["v"]].collect(),
    "groups": lambda frame: frame.groupBy("v").count().collect(),
    "na": lambda frame: frame.na.fill(0).collect(),
    "split": lambda frame: frame.randomSplit([0.5, 0.5])[0].union(frame).collect(),
    "writer": lambda frame: frame.write.format("noop").mode("overwrite").save(),
    "cache": lambda frame: frame.localCheckpoint(),
}
# Spark evaluates the first two while planning, the others while running
FAILING = {
    "SELECT CAST('x' AS INT) AS v": "'x' is not a valid INT",
    "SELECT 1 / 0 AS v": "division by zero",
    "SELECT CAST(CONCAT('x', id) AS INT) AS v FROM range(1)": "'x0' is not a valid INT",
    "SELECT v FROM bad": "line 1, column `v`: 'x' is not a valid INT",
    "SELECT CAST('x' AS INT) AS v FROM bad": "'x' is not a valid INT",
}


@pytest.fixture
def db(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    (tmp_path / "bad.csv").write_text("x\n")
    fresh_session.execute(f"""
        CREATE TABLE bad (v INT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/bad.csv', 'format' = 'csv')
    """)
    return fresh_session


# These fail in every way, the others in one: what fails does not depend on how rows are fetched
IN_EVERY_WAY = ("SELECT 1 / 0 AS v", "SELECT v FROM bad")


def ways(all_ways: dict[str, T], query: str) -> list[tuple[str, T]]:
    """Return the ways in which a test fetches the rows of a failing query."""
    return list(all_ways.items())[: None if query in IN_EVERY_WAY else 1]


@pytest.mark.variants(2)
@pytest.mark.parametrize("query", FAILING)
def test_results_raise_errors_of_sqlwin(db: sqlwin.Session, query: str) -> None:
    for way, take in ways(RESULTS, query):
        (result,) = db.execute(query)
        with pytest.raises(sqlwin.SqlwinError) as caught:
            take(result)
        assert FAILING[query] in caught.value.message, way
        assert "sqlwin:" not in str(caught.value), way


@pytest.mark.variants(2)
@pytest.mark.parametrize("query", FAILING)
def test_dataframes_raise_errors_of_sqlwin(db: sqlwin.Session, query: str) -> None:
    for way, take in ways(FRAMES, query):
        with pytest.raises(sqlwin.SqlwinError) as caught:
            take(db.sql(query))
        assert FAILING[query] in caught.value.message, way
        assert "sqlwin:" not in str(caught.value), way


@pytest.mark.filterwarnings("error::UserWarning")
def test_the_warning_of_pyspark_does_not_repeat_the_error(db: sqlwin.Session) -> None:
    with pytest.raises(sqlwin.SqlwinError):
        db.sql("SELECT v FROM bad").toPandas()


def test_an_error_while_planning_has_its_place(db: sqlwin.Session) -> None:
    script = "SELECT 1;\nSELECT 2, CAST('x' AS INT)"
    (_, result) = db.execute(script, "q.sql")
    with pytest.raises(sqlwin.SqlwinError) as caught:
        result.to_arrow()
    assert "at q.sql, line 2, column 11" in str(caught.value)


def test_explain_of_sparks_plan_raises_errors_of_sqlwin(db: sqlwin.Session) -> None:
    with pytest.raises(sqlwin.SqlwinError, match="'x' is not a valid INT"):
        db.execute("EXPLAIN EXTENDED SELECT CAST('x' AS INT)")


def test_results_are_dataframes_of_spark(db: sqlwin.Session) -> None:
    frame = db.sql("SELECT 1 AS v UNION ALL SELECT 2")
    assert isinstance(frame, DataFrame)
    assert sorted(row.v for row in frame.toLocalIterator()) == [1, 2]
    assert frame.schema.simpleString() == "struct<v:int>"
    assert frame.join(frame.groupBy("v").count(), "v").count() == 2
    assert frame.v is not None
    db.register("again", frame)
    assert db.sql("SELECT SUM(v) FROM again").first() == (3,)
    with pytest.raises(AttributeError):
        _ = frame.nope
    with pytest.raises(PySparkTypeError):
        frame.drop(1)  # type: ignore[call-overload]


def test_other_dataframes_keep_sparks_errors(db: sqlwin.Session) -> None:
    with pytest.raises(PySparkException):
        db.spark.sql("SELECT CAST('x' AS INT)").collect()


CLOSED: dict[str, Callable[[sqlwin.Session], object]] = {
    "execute": lambda session: session.execute("SELECT 1"),
    "sql": lambda session: session.sql("SELECT 1"),
    "SET": lambda session: session.execute("SET 'pipeline.name' = 'x'"),
    "explain": lambda session: session.explain("SELECT 1"),
    "register": lambda session: session.register("t", session.spark.range(1)),
    "function": lambda session: session.register_function("f", abs, "int"),
    "ui": lambda session: session.ui(0),
}


@pytest.mark.parametrize("way", CLOSED)
def test_a_closed_session_says_that_it_is_closed(spark: SparkSession, way: str) -> None:
    session = sqlwin.connect(spark)
    session.close()
    session.close()
    assert session.streams.running() == []
    with pytest.raises(sqlwin.SqlwinError, match=r"^the session is closed"):
        CLOSED[way](session)


def test_spark_that_has_ended_is_known(spark: SparkSession) -> None:
    assert not is_stopped(spark)
    assert is_stopped(cast(Any, SimpleNamespace(sparkContext=object())))
    assert not is_caused_by_stopped_spark(AttributeError("'NoneType' object has no attribute 'x'"))
