"""PostgreSQL's protocol with real clients, psycopg and psql, without Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

import sqlwin
from runtime.errors import SetupError
from sqlwin.server.client import ServedSession
from sqlwin.server.server import Address
from tests.observing import wait_until
from tests.sqlwin.dbapi.conftest import FLIGHTS
from tests.sqlwin.server.serving import (
    PASSWORD,
    Blocked,
    certificate_files,
    connect,
    psql,
    served_session,
    serving,
)

WINDOWS = """
    SELECT origin, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '182' DAYS))
    WHERE dep_delay > {late} GROUP BY origin, window_start, window_end ORDER BY origin, window_end
"""


# -- queries ---------------------------------------------------------------------------------------


def test_a_query_has_rows_with_types(client: Any) -> None:
    cursor = client.execute(
        "SELECT CAST(1.5 AS DECIMAL(10,2)) AS d, 'ä' AS s, DATE '1969-12-31' AS day, 2 AS n, "
        "TIMESTAMP_LTZ '2024-05-01 10:00:00' AS at, TIMESTAMP_NTZ '0001-01-01 00:00:00' AS t, "
        "0.5D AS x, TRUE AS b"
    )
    assert cursor.fetchall() == [
        (
            Decimal("1.50"), "ä", date(1969, 12, 31), 2, datetime(2024, 5, 1, 10, tzinfo=UTC),
            datetime.fromisoformat("0001-01-01"), 0.5, True,
        )
    ]  # fmt: skip
    assert [column.type_display for column in cursor.description] == [
        *("numeric", "text", "date", "int4", "timestamptz", "timestamp", "float8", "bool")
    ]
    assert client.execute("SELECT origin FROM flights WHERE 1 = 0").fetchall() == []


def test_windows_are_queried_with_values_that_are_never_sql(client: Any) -> None:
    query = WINDOWS.format(late="%s")
    assert client.execute(query, (600,)).fetchone() == (
        "EWR", datetime.fromisoformat("2013-05-09"), 3,
    )  # fmt: skip
    counted = "SELECT COUNT(*) FROM flights WHERE origin = %s"
    for text in ("EWR' OR '1' = '1", "\\' OR 1=1 --", "'; DROP TABLE flights; --", "$1 ? :a"):
        assert client.execute(counted, (text,)).fetchone() == (0,)
        # values that psycopg writes into the text
        with psycopg.ClientCursor(client) as cursor:
            try:
                assert cursor.execute(counted, (text,)).fetchone() == (0,)
            except psycopg.Error as error:
                assert "syntax" in str(error)


def test_a_prepared_statement_runs_with_one_value_after_another(client: Any) -> None:
    query = "SELECT COUNT(*) FROM flights WHERE dep_delay > %s AND origin IN (%s, %s)"
    counts = [
        client.execute(query, (late, "EWR", "JFK"), prepare=True).fetchone() for late in (600, 900)
    ]
    assert counts == [(27,), (6,)]
    values = (date(2013, 1, 1), datetime.fromisoformat("2013-01-01"), Decimal("1.5"), 2.5)
    for value in values:
        assert client.execute("SELECT %s AS x", (value,)).fetchone() == (value,)


def test_clients_of_postgresql_see_the_names_of_sqlwin(client: Any) -> None:
    query = (
        'SELECT COUNT(*) AS "the count" FROM "public"."late" WHERE public.late."origin" = \'EWR\''
    )
    cursor = client.execute(query)
    assert (cursor.fetchone(), cursor.description[0].name) == ((9,), "the count")


@pytest.mark.long
def test_spark_s_rows_are_served_and_its_jobs_cancelled(fresh_session: sqlwin.Session) -> None:
    served = ServedSession(fresh_session, can_write=False, double_quotes="checked")
    with serving(served) as port, connect(port) as client, ThreadPoolExecutor(1) as pool:
        nested = "SELECT array(1, 2) AS a, named_struct('x', 1, 'y', array('b')) AS s, NULL AS n"
        assert client.execute(nested).fetchone() == ([1, 2], {"x": 1, "y": ["b"]}, None)
        assert client.execute("SELECT CAST(%s AS INT) + 1", ("41",)).fetchone() == (42,)
        tracker = fresh_session.spark.sparkContext.statusTracker()
        # Spark computes COUNT(*) of a filtered range within milliseconds, however long the range
        endless = "SELECT SUM(a.id % 7 * b.id) FROM range(1000000000) a, range(1000000000) b"
        before = {*tracker.getActiveJobsIds()}
        running = pool.submit(client.execute, endless)
        wait_until(lambda: {*tracker.getActiveJobsIds()} - before)

        def is_cancelled() -> bool:
            client.cancel_safe()  # without effect before the server has read the query
            return running.done()

        wait_until(is_cancelled)
        with pytest.raises(psycopg.errors.QueryCanceled):
            running.result()
        wait_until(lambda: len(tracker.getActiveJobsIds()) == 0)
        # a client that disconnects
        leaving = connect(port)
        leaving.pgconn.send_query(endless.encode())
        wait_until(tracker.getActiveJobsIds)
        leaving.close()
        wait_until(lambda: len(tracker.getActiveJobsIds()) == 0)
        assert client.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.long
def test_slices_answer_the_query_of_a_panel(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    fresh_session.execute(f"""
        CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{FLIGHTS}');
        CREATE MATERIALIZED TABLE daily WITH ('path' = '{tmp_path}/daily') AS
        SELECT origin, window_start, window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAYS))
        GROUP BY origin, window_start, window_end;
        SET 'sqlwin.double-quotes' = 'identifier'
    """)
    served = ServedSession(fresh_session, can_write=False, double_quotes="identifier")
    panel = """
        SELECT window_end AS "time", origin AS metric, COUNT(*) AS value
        FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '7' DAYS))
        GROUP BY origin, window_start, window_end ORDER BY 1, 2
    """
    # Grafana's $__timeFilter(window_end)
    times = "window_end BETWEEN '2013-03-01T00:00:00Z' AND '2013-04-05T00:00:00Z'"
    in_range = panel.replace("GROUP BY", f"WHERE {times} GROUP BY")
    with serving(served) as port, connect(port) as client:
        for query in (panel, in_range):
            plan = "\n".join(line for (line,) in client.execute(f"EXPLAIN {query}").fetchall())
            assert "SliceScan" in plan
            assert "on Spark:" not in plan
        rows = client.execute(panel).fetchall()
        some = client.execute(in_range).fetchall()
    assert (rows[0][1], sum(row[2] for row in rows)) == ("EWR", 336776)
    first, last = (datetime(2013, month, day) for month, day in ((3, 1), (4, 5)))  # noqa: DTZ001
    assert some == [row for row in rows if first <= row[0] <= last] != []


def test_times_of_grafana_are_compared_without_spark(client: Any) -> None:
    windows = """
        SELECT window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAYS))
        WHERE window_end BETWEEN '2013-01-02T00:00:00Z' AND '2013-01-03T00:00:00Z'
        GROUP BY window_start, window_end ORDER BY window_end
    """
    days = [datetime(2013, 1, day) for day in (2, 3)]  # noqa: DTZ001
    assert client.execute(windows).fetchall() == list(zip(days, (842, 943), strict=True))


def test_explain_logs_no_warnings_of_the_protocol_s_parser(
    client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.execute("EXPLAIN SELECT origin FROM flights").fetchall()
    assert caplog.text == ""


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT nope FROM flights", "UndefinedColumn", "column `nope` does not exist"),
        ("SELECT * FROM nowhere", "UndefinedTable", "table `nowhere` does not exist"),
        ("SELECT 'a", "SyntaxError", "unterminated string"),
        ("SELECT 1; SELECT 2 FROM TABLE(TUMBLE(", "FeatureNotSupported", "expected one statement"),
        ("SELECT 1 / (dep_delay - dep_delay) FROM flights", "DataException", "division by zero"),
    ],
)
def test_an_error_has_its_sqlstate_and_the_connection_stays_open(
    client: Any, query: str, error: str, message: str
) -> None:
    with pytest.raises(getattr(psycopg.errors, error), match=message):
        client.execute(query)
    assert client.execute("SELECT 1").fetchone() == (1,)


def test_an_error_points_at_the_place_in_the_client_s_text(client: Any) -> None:
    query = "SELECT %s AS a, public.late.nope FROM public.late"
    with pytest.raises(psycopg.errors.UndefinedColumn) as raised:
        client.execute(query, (1,))
    diagnostics = raised.value.diag
    sent = query.replace("%s", "$1")
    assert sent[int(diagnostics.statement_position) - 1 :].startswith(("late.nope", "nope"))
    assert "available columns" in diagnostics.message_hint


def test_with_write_a_client_changes_the_session(tmp_path: Path) -> None:
    served = served_session(can_write=True)
    with serving(served) as port, connect(port) as client:
        client.execute(
            "CREATE TABLE o (k STRING, n INT) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path}/o', 'format' = 'parquet')"
        )
        cursor = client.execute("INSERT INTO o VALUES (%s, %s), ('b', 2)", ("a'", 1))
        assert (cursor.rowcount, cursor.statusmessage) == (2, "INSERT 0 2")
        with connect(port) as other:
            assert sorted(other.execute("SELECT * FROM o").fetchall()) == [("a'", 1), ("b", 2)]
        # a transaction block does not fail, but cannot be undone
        with client.transaction():
            client.execute("INSERT INTO o VALUES ('c', 3)")
        assert client.execute("SELECT COUNT(*) FROM o").fetchone() == (3,)
    served.session.close()


# -- connections -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"password": "wrong"}, {"password": ""}, {"user": "", "password": "x"}]
)
def test_a_wrong_password_is_refused(port: int, options: dict[str, str]) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"password"):
        connect(port, **options)


def test_ten_clients_run_at_once(port: int) -> None:
    def n_flights(number: int) -> Any:
        with connect(port) as client:
            query = "SELECT COUNT(*) FROM flights WHERE dep_delay > %s"
            return client.execute(query, (600 + 0 * number,)).fetchone()

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(n_flights, range(10))) == {(40,)}


def test_a_statement_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    served = served_session()
    blocked = Blocked(served, monkeypatch)
    with serving(served) as port, connect(port) as client, ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.execute, "SELECT 'wait'")
        blocked.begun.wait()
        client.cancel_safe()  # cancel() would block this process, and so the server
        with pytest.raises(psycopg.errors.QueryCanceled, match="canceling statement due to user"):
            running.result()
        blocked.released.set()
        assert client.execute("SELECT 1").fetchone() == (1,)
    served.session.close()


def test_a_client_that_disconnects_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = served_session()
    blocked = Blocked(served, monkeypatch)
    with serving(served) as port, connect(port) as other:
        client = connect(port)
        client.pgconn.send_query(b"SELECT 'wait'")
        blocked.begun.wait()
        client.close()
        assert other.execute("SELECT 1").fetchone() == (1,)
        blocked.released.set()
        assert other.execute("SELECT 2").fetchone() == (2,)
    served.session.close()


def test_a_port_in_use_is_refused(port: int) -> None:
    import asyncio

    from sqlwin.server.server import serve

    served = served_session()
    with pytest.raises(SetupError, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
        asyncio.run(serve(served, Address(port=port), lambda bound: None, asyncio.Event()))
    served.session.close()


def test_with_a_certificate_clients_must_use_tls(tmp_path: Path) -> None:
    certificate, key = certificate_files(tmp_path)
    address = Address(password=PASSWORD, certificate=str(certificate), key=str(key))
    served = served_session()
    with serving(served, address) as port:
        with connect(port, sslmode="verify-full", sslrootcert=certificate) as client:
            assert client.pgconn.ssl_in_use
            assert client.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="the server requires TLS"):
            connect(port, sslmode="disable")
    with (
        pytest.raises(SetupError, match="cannot use the certificate"),
        serving(served, Address(certificate=str(tmp_path / "none"))),
    ):
        pass
    served.session.close()


# -- psql ------------------------------------------------------------------------------------------


def test_psql_queries_and_describes(port: int) -> None:
    done = psql(
        port, WINDOWS.format(late=600), "\\dv", "\\d late", "SHOW VIEWS", "SELECT 1; SELECT 2"
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "EWR|2013-05-09 00:00:00|3"
    assert "public|late|view|anyone" in lines
    assert "dep_delay|integer|||" in lines
    assert lines[-3:] == ["late", "1", "2"]


def test_psql_shows_the_place_of_an_error(port: int) -> None:
    done = psql(port, "SELECT origin,\n nope FROM flights")
    assert done.returncode == 1
    assert done.stderr.splitlines()[:3] == [
        "ERROR:  column `nope` does not exist",
        "LINE 2:  nope FROM flights",
        "         ^",
    ]


def test_psql_passes_parameters(port: int) -> None:
    script = "\\set late 600\n" + WINDOWS.format(late=":late") + ";\n"
    done = psql(port, stdin=script)
    assert done.stdout.startswith("EWR|2013-05-09 00:00:00|3")


def test_a_server_that_stops_closes_its_connections() -> None:
    served = served_session()
    with serving(served) as port:
        client = connect(port)
        assert client.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError):
        client.execute("SELECT 1")
    wait_until(lambda: client.closed)
    served.session.close()
