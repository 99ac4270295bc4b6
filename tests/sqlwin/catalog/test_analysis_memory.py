"""What Spark's analyser is asked, and when it is asked again."""

from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import LongType, StructType

from runtime.errors import SqlwinError
from runtime.spec.table import Column
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import Registered
from sqlwin.parser.parser import parse_query

QUERY = parse_query("SELECT COUNT(*) AS n FROM events")


class Analyser:
    """A session of Spark's that knows one answer."""

    def __init__(self):
        self.asked = []
        self.error = None

    def sql(self, text):
        self.asked.append(text)
        if self.error is not None:
            raise self.error
        self.schema = StructType().add("n", LongType(), False)
        return self

    def createOrReplaceTempView(self, name):
        pass


@pytest.fixture
def analyser():
    return Analyser()


@pytest.fixture
def catalog(analyser):
    return SessionCatalog(cast(Any, analyser), cast(Any, None))


def test_within_a_statement_spark_is_asked_once(analyser, catalog):
    for _ in range(3):
        assert catalog.analyze(QUERY, {}) == (Column("n", "bigint", False),)
    assert len(analyser.asked) == 1
    catalog.analyze(parse_query("SELECT 1 AS n"), {})
    assert len(analyser.asked) == 2


def test_the_next_statement_asks_again(analyser, catalog):
    catalog.analyze(QUERY, {})
    catalog.start_statement("automatic")
    catalog.analyze(QUERY, {})
    assert len(analyser.asked) == 2


def test_when_spark_sees_another_table_it_is_asked_again(analyser, catalog):
    catalog.analyze(QUERY, {})
    catalog.add(
        ("events",), Registered(("events",), cast(Any, analyser)), replace=True, if_not_exists=False
    )
    assert catalog.relation(("events",)) == "events"
    catalog.analyze(QUERY, {})
    assert len(analyser.asked) == 2


def test_an_error_is_not_kept(analyser, catalog):
    analyser.error = AnalysisException("no such table")
    with pytest.raises(SqlwinError):
        catalog.analyze(QUERY, {})
    analyser.error = None
    assert catalog.analyze(QUERY, {}) == (Column("n", "bigint", False),)
