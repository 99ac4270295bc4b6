"""Which queries go to Spark's analyser, and when they go to it again."""

from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

import sqlwin
from runtime.errors import SqlwinError
from runtime.spec.table import Column
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import Registered
from sqlwin.catalog.streams import StreamReading
from sqlwin.parser.parser import parse_query

QUERY = parse_query("SELECT COUNT(*) AS n FROM events")


class Analyser:
    """A Spark session with one prepared answer."""

    conf = None  # with unknown columns, so that nothing is certain

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


def test_a_statement_analyses_each_query_in_spark_once(analyser, catalog):
    for _ in range(3):
        assert catalog.analyze(QUERY, {}) == (Column("n", "bigint", False),)
    assert len(analyser.asked) == 1
    catalog.analyze(parse_query("SELECT 1 AS n"), {})
    assert len(analyser.asked) == 2


def test_the_next_statement_asks_again(analyser, catalog):
    catalog.analyze(QUERY, {})
    catalog.start_statement(StreamReading())
    catalog.analyze(QUERY, {})
    assert len(analyser.asked) == 2


def test_a_changed_table_is_analysed_again(analyser, catalog):
    catalog.analyze(QUERY, {})
    catalog.add(
        ("events",), Registered(("events",), cast(Any, analyser)), replace=True, if_not_exists=False
    )
    assert catalog.relation(("events",)) == "events"
    catalog.analyze(QUERY, {})
    assert len(analyser.asked) == 2


def test_an_error_of_the_analyser_is_not_cached(analyser, catalog):
    analyser.error = AnalysisException("no such table")
    with pytest.raises(SqlwinError):
        catalog.analyze(QUERY, {})
    analyser.error = None
    assert catalog.analyze(QUERY, {}) == (Column("n", "bigint", False),)


WINDOWS = """
    SELECT k, window_end, SUM(v) AS s, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY k, window_start, window_end"""


@pytest.fixture
def asked(spark, tmp_path, monkeypatch):
    """Return the requests that a session sends to Spark for a query."""
    rows = {"ts": pa.array([0, 1], pa.timestamp("us")), "k": ["a", "b"], "v": [1, 2]}
    (tmp_path / "readings").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "readings" / "a.parquet")
    own = sqlwin.connect(spark)
    own.execute(f"""
        CREATE TABLE readings WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/readings', 'format' = 'parquet')""")
    texts = []
    plain = SparkSession.sql

    def sql(self, text, *args, **options):
        texts.append(text)
        return plain(self, text, *args, **options)

    monkeypatch.setattr(SparkSession, "sql", sql)

    def ask(query):
        texts.clear()
        own.execute(f"EXPLAIN {query}")
        return list(texts)

    yield ask
    own.execute("DROP TABLE readings")


def test_certain_columns_need_no_analyser(asked):
    assert asked(WINDOWS) == []
    assert asked(WINDOWS.replace("TABLE readings", "(SELECT * FROM readings WHERE v > 1)")) == []
    (text,) = asked(WINDOWS.replace("SUM(v)", "CORR(v, v)"))[:1]
    assert "CORR" in text


def test_settings_that_may_change_types_need_the_analyser(spark, asked):
    spark.conf.set("spark.sql.decimalOperations.allowPrecisionLoss", "false")
    try:
        assert len(asked(WINDOWS)) > 0
    finally:
        spark.conf.unset("spark.sql.decimalOperations.allowPrecisionLoss")
