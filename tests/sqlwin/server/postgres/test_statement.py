"""PostgreSQL's words over the server, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.sqlwin.server.serving import connect, served_session, serving


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    served = served_session()
    with serving(served) as port, connect(port) as connection:
        yield connection
    served.session.close()


def naive(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type] # noqa: DTZ001


@pytest.mark.parametrize(
    ("query", "names", "row"),
    [
        ("SELECT 10/4, -7/2 AS b, 10/4.0", ["?column?", "b", "?column?"], (2, -3, Decimal("2.5"))),
        ("SELECT COUNT(*), max(dep_delay) / 60 AS h FROM flights", ["count", "h"], (336776, 21)),
        ("SELECT c / 2 AS h FROM (SELECT count(*) AS c FROM flights) s", ["h"], (168388,)),
        ("SELECT count FROM (SELECT count(*) FROM late) s", ["count"], (40,)),
        (
            "SELECT '2024-01-01'::timestamp, timestamp with time zone '2024-01-01 00:00:00+02', "
            "'2024-02-29'::date, '5'::int4",
            ["timestamp", "timestamptz", "date", "int4"],
            (naive(2024, 1, 1), datetime(2023, 12, 31, 22, tzinfo=UTC), date(2024, 2, 29), 5),
        ),
        ("SELECT count(*) FROM late WHERE origin = ANY('{EWR,LGA}')", ["count"], (22,)),
        ("SELECT count(*) FROM late WHERE origin <> ALL(ARRAY['EWR'])", ["count"], (31,)),
        (
            "SELECT count(*) FROM flights WHERE dep_utc < timestamptz '2013-01-01 12:00:00Z'",
            ["count"],
            (58,),
        ),
        ("SELECT dep_delay FROM flights ORDER BY dep_delay DESC LIMIT 1", ["dep_delay"], (None,)),
        ("SELECT dep_delay FROM flights ORDER BY dep_delay LIMIT 1", ["dep_delay"], (-43,)),
        ("SELECT extract(year from sched_dep) FROM flights LIMIT 1", ["extract"], (2013,)),
    ],
)
def test_words_of_postgresql_mean_the_same(
    client: Any, query: str, names: list[str], row: tuple[Any, ...]
) -> None:
    cursor = client.execute(query)
    assert [column.name for column in cursor.description] == names
    assert cursor.fetchone() == row


@pytest.mark.parametrize(
    ("query", "sqlstate", "message"),
    [
        ("SELECT age(sched_dep, sched_dep) FROM flights", "42883", "no function age"),
        # months between two times in Metabase, an address in Metabase, a type of Superset
        (
            "SELECT CAST(extract(month FROM age(date_trunc('day', sched_dep), "
            "date_trunc('day', sched_dep))) AS integer) FROM flights",
            "42883",
            "no function age",
        ),
        (
            "SELECT origin FROM late WHERE origin = CAST('10.0.0.1' AS inet)",
            "0A000",
            "no type inet",
        ),
        ("SELECT regexp_matches(origin, 'E') FROM late", "42883", "no function regexp_matches"),
        ("SELECT 1::money", "0A000", "no type money"),
        ("SELECT CAST('x' AS xml)", "0A000", "no type xml"),
        ("SELECT uuid() / 2", "0A000", "the type of `uuid()`, on which the division depends"),
        # types that depend on themselves
        (
            "SELECT x AS y, y AS x FROM (SELECT uuid() AS z) s ORDER BY y / 2",
            "0A000",
            "the type of `y`, on which the division depends",
        ),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) "
            "SELECT n / 2 FROM r",
            "0A000",
            "the type of `n`, on which the division depends",
        ),
        ("SELECT " + " / ".join(["1"] * 3000), "42601", "the statement is nested too deeply"),
        ("SELECT " + "(" * 600 + "1" + ")" * 600, "42601", "the statement is nested too deeply"),
        ("SELECT '1 month 2 days'::interval", "0A000", "has months and days"),
        ("SELECT 'soon'::interval", "22007", 'invalid input syntax for type interval: "soon"'),
        ("SELECT 'x'::uuid", "22P02", 'invalid input syntax for type uuid: "x"'),
        ("SELECT to_char(sched_dep, 'RM') FROM flights", "0A000", "no template pattern RM"),
        ("SELECT to_char(dep_delay, '999') FROM flights", "0A000", "to_char takes a time"),
        ("SELECT extract(julian from sched_dep) FROM flights", "0A000", "cannot extract julian"),
        ("SELECT origin ~ '(?x)a' FROM flights", "0A000", "does not read the options"),
    ],
)
def test_what_sqlwin_cannot_mean_is_refused(
    client: Any, query: str, sqlstate: str, message: str
) -> None:
    with pytest.raises(psycopg.Error) as raised:
        client.execute(query)
    assert (raised.value.sqlstate, message in str(raised.value)) == (sqlstate, True), raised.value


def test_a_refusal_and_an_error_point_at_the_client_s_text(client: Any) -> None:
    for query, place in (
        ('SELECT 10/4 AS "a", age(x)', "age"),
        ("SELECT 10/4 AS a, '5'::int4 AS b, nope FROM public.late", "nope"),
    ):
        with pytest.raises(psycopg.Error) as raised:
            client.execute(query)
        position = int(raised.value.diag.statement_position)
        assert query[position - 1 :].startswith(place)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT reflect('java.lang.System', 'exit', 1)::int",
        "SELECT string_agg(java_method('java.lang.System', 'getenv'), ',')",
        "SELECT 10/4 AS a FROM '/etc/passwd'",
        "SELECT x / 2 AS a FROM '/etc/passwd' WHERE x > $1",
        "SELECT (SELECT 2^3 FROM csv.`/etc/passwd`)",
        "WITH a AS (SELECT 10/4 AS b) INSERT INTO late SELECT 'x', b FROM a",
    ],
)
def test_a_translated_statement_passes_the_guard(client: Any, query: str) -> None:
    result = client.pgconn.prepare(b"", query.encode())
    fields = [result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)]
    assert fields in ([b"25006"], [b"0A000"])


def test_statements_of_sqlwin_stay_as_they_are(client: Any) -> None:
    query = """
        SELECT origin, window_end, COUNT(*) AS n
        FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY, INTERVAL '2' DAYS))
        WHERE dep_delay > 600 GROUP BY origin, window_start, window_end ORDER BY n DESC, 1, 2
    """
    assert client.execute(query).fetchone() == ("JFK", naive(2013, 4, 20), 2)
