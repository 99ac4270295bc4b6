"""Cursors with psycopg and psql, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.sqlwin.server.serving import connect, psql

NUMBERS = "SELECT n FROM (VALUES (1), (2), (3), (4), (5)) AS t (n) ORDER BY n"


@pytest.fixture
def client(port: int) -> Iterator[Any]:
    """A client within a transaction that has the cursor `c` over the numbers from 1 to 5."""
    with connect(port, autocommit=False) as connection:
        done = connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {NUMBERS}")
        assert done.statusmessage == "DECLARE CURSOR"
        yield connection


def numbers(client: Any, statement: str) -> tuple[list[int], str]:
    cursor = client.execute(statement)
    return [n for (n,) in cursor.fetchall()], cursor.statusmessage


def test_fetch_reads_forward(client: Any) -> None:
    assert numbers(client, "FETCH c") == ([1], "FETCH 1")
    assert numbers(client, "FETCH FORWARD 2 FROM c") == ([2, 3], "FETCH 2")
    assert numbers(client, "fetch next in C") == ([4], "FETCH 1")
    assert numbers(client, 'FETCH ALL FROM "c"') == ([5], "FETCH 1")
    assert numbers(client, "FETCH 10 FROM c") == ([], "FETCH 0")


def test_move_passes_rows(client: Any) -> None:
    assert client.execute("MOVE 2 FROM c").statusmessage == "MOVE 2"
    assert numbers(client, "FETCH c") == ([3], "FETCH 1")
    assert numbers(client, "FETCH RELATIVE 2 FROM c") == ([5], "FETCH 1")
    assert client.execute("MOVE FORWARD ALL IN c").statusmessage == "MOVE 0"


def test_a_place_is_absolute(client: Any) -> None:
    assert numbers(client, "FETCH FIRST FROM c") == ([1], "FETCH 1")
    assert numbers(client, "FETCH ABSOLUTE 4 FROM c") == ([4], "FETCH 1")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="only scan forward"):
        client.execute("FETCH ABSOLUTE 2 FROM c")


@pytest.mark.parametrize(
    "statement", ["FETCH PRIOR FROM c", "FETCH BACKWARD 1 FROM c", "MOVE -1 FROM c", "FETCH LAST c"]
)
def test_a_cursor_does_not_go_back(client: Any, statement: str) -> None:
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="only scan forward"):
        client.execute(statement)


def test_a_cursor_ends_with_close_and_with_its_transaction(client: Any) -> None:
    named = "SELECT name, statement FROM pg_cursors"
    assert client.execute(named).fetchall() == [("c", f"DECLARE c NO SCROLL CURSOR FOR {NUMBERS}")]
    with pytest.raises(psycopg.errors.DuplicateCursor, match="already"), client.transaction():
        client.execute("DECLARE c CURSOR FOR SELECT 1")
    assert client.execute("CLOSE c").statusmessage == "CLOSE CURSOR"
    client.execute("DECLARE d CURSOR FOR SELECT 1 AS a")
    client.execute("DECLARE e CURSOR WITH HOLD FOR SELECT 2 AS a")
    client.commit()
    assert client.execute("SELECT name, is_holdable FROM pg_cursors").fetchall() == [("e", True)]
    assert client.execute("FETCH e").fetchall() == [(2,)]
    with pytest.raises(psycopg.errors.InvalidCursorName, match='cursor "d" does not exist'):
        client.execute("FETCH d")
    client.rollback()
    client.execute("CLOSE ALL")
    assert client.execute(named).fetchall() == []


def test_a_cursor_needs_a_transaction_and_a_query(port: int) -> None:
    with connect(port) as client:
        for statement, error in (
            (f"DECLARE c CURSOR FOR {NUMBERS}", psycopg.errors.NoActiveSqlTransaction),
            ("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1", psycopg.errors.FeatureNotSupported),
            ("DECLARE c CURSOR FOR", psycopg.errors.SyntaxError),
            ("FETCH", psycopg.errors.SyntaxError),
            ("CLOSE c", psycopg.errors.InvalidCursorName),
            ("FETCH c", psycopg.errors.InvalidCursorName),
        ):
            with pytest.raises(error):
                client.execute(statement)


def test_an_error_points_at_the_place_in_the_query_of_a_cursor(client: Any) -> None:
    statement = "DECLARE d CURSOR FOR SELECT nope FROM flights"
    with pytest.raises(psycopg.errors.UndefinedColumn) as raised:
        client.execute(statement)
    assert int(raised.value.diag.statement_position or 0) == statement.index("nope") + 1


def test_psycopg_reads_a_named_cursor_with_parameters(client: Any) -> None:
    query = "SELECT dep_delay, origin FROM flights WHERE dep_delay > %s AND origin = %s ORDER BY 1"
    expected = client.execute(query, (600, "EWR")).fetchall()
    for is_binary in (False, True):
        with client.cursor("named one", binary=is_binary) as cursor:
            cursor.execute(query, (600, "EWR"))
            cursor.itersize = 4
            assert [column.name for column in cursor.description] == ["dep_delay", "origin"]
            assert list(cursor) == expected
    with client.cursor("again") as cursor:
        cursor.execute(query, (600, "EWR"))
        cursor.scroll(3)
        assert cursor.fetchmany(2) == expected[3:5]
    with client.cursor("held", withhold=True) as cursor:
        cursor.execute(query, (600, "EWR"))
        client.commit()
        assert cursor.fetchall() == expected


def test_psql_fetches_a_part_at_a_time(port: int) -> None:
    done = psql(port, "\\set FETCH_COUNT 2", NUMBERS, "\\echo :ROW_COUNT", "SELECT 1 AS a")
    assert (done.stderr, done.stdout.split()) == ("", ["1", "2", "3", "4", "5", "5", "1"])
