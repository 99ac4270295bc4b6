"""The setting 'sqlwin.executor' with Spark's driver in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame

import sqlwin
from tests.goldens import ROOT

SETUP = f"""
CREATE TABLE flights WITH ('connector' = 'filesystem',
  'path' = '{ROOT}/queries/data/flights.parquet')
"""
HOP = """
SELECT origin, window_end, COUNT(*) AS n, COUNT(DISTINCT carrier) AS carriers
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '6' HOURS, INTERVAL '1' DAY))
WHERE sched_dep < TIMESTAMP '2013-01-03 00:00:00' GROUP BY origin, window_start, window_end
"""


@pytest.fixture
def flights_session(session: sqlwin.Session) -> Iterator[sqlwin.Session]:
    session.execute(SETUP)
    yield session
    session.execute("RESET 'sqlwin.executor'; DROP TABLE flights")


def test_portable_and_spark_have_the_same_rows(
    flights_session: sqlwin.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(executor: str) -> Counter[tuple[object, ...]]:
        flights_session.execute(f"SET 'sqlwin.executor' = '{executor}'")
        (result,) = flights_session.execute(HOP)
        return Counter(map(tuple, result.rows))

    expected = rows("spark")
    assert "on Spark: 'sqlwin.executor' is 'spark'\n" in flights_session.explain(HOP)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Python workers were used")

    monkeypatch.setattr(DataFrame, "mapInArrow", refuse)
    assert rows("portable") == expected
    plan = flights_session.explain(HOP)
    why = "portable: one text of Spark SQL, because 'sqlwin.executor' is 'portable'"
    assert f"== Execution ==\n{why}\n\n== Spark SQL ==\nWITH slices" in plan


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (HOP.replace("COUNT(*)", "LISTAGG(carrier)"), "which cannot run the query: "),
        (f"EXPLAIN ANALYZE {HOP}", "which does not support EXPLAIN ANALYZE"),
    ],
    ids=["aggregate", "analyze"],
)
def test_what_has_no_portable_form_is_refused(
    sql: str, message: str, flights_session: sqlwin.Session
) -> None:
    flights_session.execute("SET 'sqlwin.executor' = 'portable'")
    with pytest.raises(sqlwin.SqlwinError) as caught:
        flights_session.execute(sql)
    assert caught.value.message.startswith(f"'sqlwin.executor' is 'portable', {message}")
    assert caught.value.hint == "SET 'sqlwin.executor' = 'auto'"
