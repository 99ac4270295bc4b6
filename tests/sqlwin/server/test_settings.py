"""Settings of a client: statement_timeout, SET LOCAL, RESET, options of a connection."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from sqlwin.server.client import ServedSession
from sqlwin.server.settings import milliseconds
from tests.sqlwin.server.serving import Blocked, connect, psql


def timeout(client: Any) -> str:
    return str(client.execute("SHOW statement_timeout").fetchone()[0])


@pytest.mark.parametrize(
    ("text", "n_ms"),
    [("0", 0), ("250", 250), ("1.5s", 1500), ("2 min", 120_000), ("1h", 3_600_000),
     ("24d", 2_073_600_000), ("1500us", 2), (".5s", 500)],
)  # fmt: skip
def test_a_duration_has_the_units_of_postgresql(text: str, n_ms: int) -> None:
    assert milliseconds("statement_timeout", text) == n_ms


@pytest.mark.parametrize("value", ["abc", "5 weeks", "-1", "25d", "1 S"])
def test_an_invalid_timeout_is_refused(client: Any, value: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="statement_timeout"):
        client.execute(f"SET statement_timeout = '{value}'")
    assert timeout(client) == "0"


def test_a_timeout_is_set_shown_and_reset(client: Any) -> None:
    for value, shown in (("2000", "2s"), ("90s", "90s"), ("60min", "1h"), ("1500", "1500ms")):
        client.execute(f"SET statement_timeout TO '{value}'")
        assert timeout(client) == shown
    client.execute("RESET statement_timeout")
    assert timeout(client) == "0"
    client.execute("SELECT set_config('statement_timeout', '5s', false)")
    assert timeout(client) == "5s"
    client.execute("SET statement_timeout = DEFAULT")
    assert timeout(client) == "0"


def test_a_setting_is_local_to_a_transaction(client: Any) -> None:
    client.execute("SET statement_timeout = '1min'")
    with client.transaction():
        client.execute("SET LOCAL statement_timeout = '2min'")
        assert timeout(client) == "2min"
    assert timeout(client) == "1min"
    client.execute("SET LOCAL statement_timeout = '2min'")
    assert timeout(client) == "1min"
    client.execute("DISCARD ALL")
    assert timeout(client) == "0"


def test_a_connection_begins_with_its_options(port: int) -> None:
    options = "-c statement_timeout=3s -c application_name=a\\ b"
    with connect(port, options=options) as client:
        assert timeout(client) == "3s"
        client.execute("SET statement_timeout = '1min'")
        client.execute("RESET ALL")
        assert timeout(client) == "3s"
        assert client.execute("SHOW application_name").fetchone() == ("a b",)
    with pytest.raises(psycopg.OperationalError, match="invalid value for parameter"):
        connect(port, options="-c statement_timeout=soon")


def test_a_statement_ends_after_its_timeout(
    served: ServedSession, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = Blocked(served, monkeypatch)
    with connect(port) as client:
        client.execute("SET statement_timeout = '50ms'")
        message = "canceling statement due to statement timeout"
        with pytest.raises(psycopg.errors.QueryCanceled, match=message):
            client.execute("SELECT 'wait'")  # a message for each step
        done = psql(port, "SET statement_timeout = 50", "SELECT 'wait'")  # one message
        assert message in done.stderr
        blocked.released.set()
        client.execute("SET statement_timeout = 0")
        assert client.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.errors.QueryCanceled), client.transaction():
            blocked.released.clear()
            client.execute("SET LOCAL statement_timeout = '50ms'")
            client.execute("SELECT 'wait'")
        blocked.released.set()
