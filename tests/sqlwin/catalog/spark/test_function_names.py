"""SHOW FUNCTIONS and USE before Spark has started."""

from __future__ import annotations

import pytest

import sqlwin
from sqlwin.catalog.spark.function_names import NAMES
from sqlwin.session import Session
from tests.unstarted import NeedsSparkError, unstarted_spark


def without_spark() -> Session:
    return Session(unstarted_spark(), settings={})


def functions(session: sqlwin.Session, like: str = "") -> list[str]:
    (result,) = session.execute(f"SHOW FUNCTIONS{like}")
    return [str(row[0]) for row in result.rows]


def test_functions_are_listed_without_spark() -> None:
    names = functions(without_spark())
    assert {"hop", "tumble", "initcap", "sum", "+"} < set(names) and names == sorted(names)
    assert functions(without_spark(), " LIKE 'tumbl%'") == ["tumble"]


@pytest.mark.long
def test_functions_are_the_ones_of_spark(fresh_session: sqlwin.Session) -> None:
    # other tests register functions in this process
    listed = {row[0] for row in fresh_session.spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert listed >= NAMES
    assert {name for name in listed if name.startswith(("a", "s", "w"))} == {
        name for name in NAMES if name.startswith(("a", "s", "w"))
    }


@pytest.mark.parametrize(
    "statement",
    [
        "USE default",
        "USE DATABASE default",
        "USE spark_catalog.default",
        "USE CATALOG spark_catalog",
        "USE CATALOG default_catalog",
        "USE default_catalog.default_database",
    ],
)
def test_use_of_the_initial_database_changes_nothing(statement: str) -> None:
    (result,) = without_spark().execute(statement)
    assert result.message == "OK"


@pytest.mark.parametrize("statement", ["USE other", "USE CATALOG iceberg", "USE other.default"])
def test_use_of_other_names_asks_spark(statement: str) -> None:
    with pytest.raises(NeedsSparkError):
        without_spark().execute(statement)
