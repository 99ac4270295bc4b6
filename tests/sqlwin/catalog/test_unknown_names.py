"""Unknown columns and tables are reported without Spark, as with it."""

from __future__ import annotations

import pytest

import sqlwin
from planner.sql.unknown_columns import unknown_column
from runtime.spec.table import Column
from sqlwin.dialect import SqlWin
from sqlwin.session import Session
from tests.errors.test_errors import FLIGHTS
from tests.unstarted import NeedsSparkError, unstarted_spark

HOUR = "TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))"
UNKNOWN = [
    "SELECT dep_dely FROM flights",
    "SELECT f.dep_dely FROM flights f",
    "SELECT origin FROM flights WHERE dep_dely > 3",
    "SELECT orign, COUNT(*) AS n FROM flights GROUP BY orign",
    "SELECT a.origin FROM flights a JOIN flights b ON a.flight = b.fligth",
    "SELECT destination FROM (SELECT dest, origin AS o FROM flights) AS t",
    "WITH daily AS (SELECT origin AS o FROM flights) SELECT origin FROM daily",
    "SELECT zzz FROM flights UNION ALL SELECT origin FROM flights",
    f"SELECT window_end, SUM(dep_dely) AS s FROM {HOUR} GROUP BY window_end",
    f"SELECT window_ende, COUNT(*) AS n FROM {HOUR} GROUP BY window_end",
    "SELECT dest FROM (SELECT origin AS o FROM flights UNION ALL SELECT dest FROM flights) AS u",
    "SELECT * FROM flihgts",
    "SELECT * FROM nothing",
    "SELECT COUNT(*) AS n FROM flights JOIN airlines ON flights.carrier = airlines.carrier",
    "SELECT COUNT(*) AS n FROM TABLE(HOP(TABLE flight, DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
    "INTERVAL '1' HOUR)) GROUP BY window_end",
]


@pytest.mark.parametrize("sql", UNKNOWN)
def test_the_error_is_the_one_of_spark(sql: str, flights: sqlwin.Session) -> None:
    with pytest.raises(sqlwin.SqlwinError) as on_spark:
        flights.execute(sql)
    session = Session(unstarted_spark(), settings={})
    session.execute(FLIGHTS)
    with pytest.raises(sqlwin.SqlwinError) as caught:
        session.execute(sql)
    assert not isinstance(caught.value, NeedsSparkError)
    assert str(caught.value) == str(on_spark.value)
    assert caught.value.kind == on_spark.value.kind


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT origin AS o, o FROM t",
        "SELECT current_date, user FROM t",
        "SELECT s.field FROM t",
        "SELECT t.s.field FROM t",
        "SELECT _metadata.file_path FROM t",
        "SELECT transform(s, x -> x + 1) FROM t",
        "SELECT * EXCEPT (origin) FROM t",
        "SELECT TIMESTAMPADD(HOUR, 1, origin) FROM t",
        "SELECT origin FROM t ORDER BY nope",
        "SELECT origin FROM t GROUP BY origin HAVING nope",
        "SELECT origin FROM t AS r(nope)",
        "SELECT nope FROM (VALUES (1)) AS v(nope)",
        "SELECT nope FROM t LATERAL VIEW explode(s) AS nope",
        "SELECT nope, nothing FROM t",
        "SELECT nope FROM (SELECT s FROM t) JOIN (SELECT origin FROM t) ON s = origin",
        "SELECT other.origin FROM t",
        "SELECT (SELECT MAX(b.s) FROM t AS b WHERE b.origin = a.origin) FROM t AS a",
        "SELECT origin, ROW_NUMBER() OVER (ORDER BY nope) FROM t",
    ],
)
def test_names_that_may_exist_in_spark_are_left_to_spark(sql: str) -> None:
    query = SqlWin().parse(sql)[0]
    relations = {"t": (Column("origin", "string", True), Column("s", "string", True))}
    assert unknown_column(query, relations) is None


def test_a_column_that_a_view_does_not_have() -> None:
    session = Session(unstarted_spark(), settings={})
    session.execute("CREATE TEMPORARY VIEW v AS SELECT 1 AS x")
    with pytest.raises(sqlwin.SqlwinError, match="column `y` does not exist"):
        session.execute("SELECT y FROM v")


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("EXPLAIN INSERT INTO flihgts SELECT * FROM flights", 21),
        ("INSERT INTO flihgts SELECT * FROM flights", 13),
        ("EXPLAIN STATEMENT SET BEGIN INSERT INTO flihgts SELECT * FROM flights; END", 41),
    ],
)
def test_a_target_that_does_not_exist(sql: str, column: int) -> None:
    session = Session(unstarted_spark(), settings={})
    session.execute(FLIGHTS)
    with pytest.raises(sqlwin.SqlwinError, match="table `flihgts` does not exist") as caught:
        session.execute(sql)
    assert caught.value.position is not None
    assert caught.value.position.column == column
    assert caught.value.hint == "did you mean `flights`?"
