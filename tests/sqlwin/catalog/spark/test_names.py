"""Questions about Spark's catalogs, which run no job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sqlwin


@pytest.fixture
def session(fresh_session: sqlwin.Session) -> Iterator[sqlwin.Session]:
    """A session with the table `stored` and the view `shown` in Spark's catalog."""
    fresh_session.spark.sql("CREATE TABLE stored (a INT COMMENT 'first') USING parquet")
    fresh_session.spark.sql("CREATE TEMPORARY VIEW shown AS SELECT 1 AS a")
    yield fresh_session
    fresh_session.spark.sql("DROP TABLE stored")
    fresh_session.spark.sql("DROP VIEW shown")


def n_jobs(session: sqlwin.Session) -> int:
    return len(session.spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def test_catalogs_are_asked_without_a_job(session: sqlwin.Session) -> None:
    statements = {
        "SHOW TABLES LIKE 's%'": [("shown",), ("stored",)],
        "SHOW VIEWS LIKE 's%'": [("shown",)],
        "SHOW FUNCTIONS LIKE 'abs'": [("abs",)],
        "SHOW COLUMNS IN stored": [("a",)],
        "SHOW DATABASES LIKE 'default'": [("default",)],
        "DESCRIBE stored": [("a", "INT", "first")],
        "DESCRIBE QUERY SELECT 1 AS a": [("a", "INT", None)],
    }
    before = n_jobs(session)
    found = {statement: session.execute(statement)[0].rows for statement in statements}
    assert {text: [tuple(row) for row in rows] for text, rows in found.items()} == statements
    with pytest.raises(sqlwin.SqlwinError) as raised:
        session.execute("SELECT * FROM storedd")
    assert raised.value.hint == "did you mean `stored`?"
    with pytest.raises(sqlwin.SqlwinError) as raised:
        session.execute("USE defaul")
    assert raised.value.hint == "did you mean `default`?"
    assert n_jobs(session) == before
