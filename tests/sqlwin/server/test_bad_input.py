"""What clients do wrong: values, messages, passwords, floods. With psycopg and without Spark."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sqlwin.server.client import ServedSession
from sqlwin.server.server import Address
from tests.sqlwin.server.serving import (
    PASSWORD,
    certificate_files,
    connect,
    serving,
)
from tests.sqlwin.server.test_large_results import RawClient


@pytest.fixture(scope="module")
def open_port(served: ServedSession) -> Iterator[int]:
    """A server without a password."""
    with serving(served, Address()) as bound:
        yield bound


# -- values of parameters --------------------------------------------------------------------------

COUNT = "SELECT COUNT(*) FROM flights WHERE dep_delay > $1"


def parameter_message(sql: str, values: list[bytes], oids: list[int], is_binary: bool) -> list[Any]:
    """Return the messages of a statement with parameters."""
    parse = b"\0" + sql.encode() + b"\0" + struct.pack(f"!h{len(oids)}i", len(oids), *oids)
    bind = b"\0\0" + struct.pack("!hhh", 1, int(is_binary), len(values))
    for value in values:
        bind += struct.pack("!i", len(value)) + value
    return [(b"P", parse), (b"B", bind + bytes(2)), (b"E", bytes(5)), (b"S", b"")]


@pytest.mark.parametrize(
    ("type_oid", "value", "is_binary", "sqlstate", "message"),
    [
        (23, b"abc", False, "22P02", "the value 'abc' of the parameter $1 is invalid for integer"),
        (23, b"", False, "22P02", "the value '' of the parameter $1 is invalid for integer"),
        (23, b"9999999999", False, "22P02", "'9999999999' of the parameter $1 is invalid for integer"),
        (16, b"maybe", False, "22P02", "invalid for boolean"),
        (1114, b"2013-99-01", False, "22P02", "invalid for timestamp without time zone"),
        (1700, b"1.2.3", False, "22P02", "invalid for numeric"),
        (17, b"no hex", False, "22P02", "invalid for bytea"),
        (23, b"\xff\xfe", False, "22021", 'invalid byte sequence for encoding "UTF8": 0xff'),
        (23, b"\0\0\0\1\2", True, "22P03", "the value of the parameter $1 is malformed"),
    ],
)  # fmt: skip
def test_an_invalid_value_is_refused(
    open_port: int, type_oid: int, value: bytes, is_binary: bool, sqlstate: str, message: str
) -> None:
    with RawClient(open_port) as client:
        for tag, content in parameter_message(COUNT, [value], [type_oid], is_binary):
            client.send(tag, content)
        fields = client.error()
        assert fields["C"] == sqlstate
        assert message in fields["M"]
        client.send(b"Q", b"SELECT 1\0")
        assert client.tags_until(b"Z").endswith("TDCZ")


@pytest.mark.parametrize(
    ("sql", "values", "sqlstate", "message"),
    [
        (COUNT, [], "08P01", "the statement has 1 parameters, but 0 values were sent"),
        (COUNT, [b"1", b"2"], "08P01", "the statement has 1 parameters, but 2 values were sent"),
        ("SELECT $0", [], "42P02", "there is no parameter $0"),
        ("SELECT relname FROM pg_class WHERE oid = $1", [b"abc"], "22P02", "invalid for oid"),
        ("SELECT 1 FROM pg_class WHERE relname ~ $1", [b"(("], "2201B", "invalid regular expr"),
        ("SELECT 'nowhere'::regclass", [], "42P01", 'relation "nowhere" does not exist'),
        ("COPY flights TO STDOUT", [], "0A000", "the server has no COPY"),
        ("LISTEN a", [], "0A000", "the server has no LISTEN"),
    ],
)
def test_an_invalid_statement_is_refused(
    open_port: int, sql: str, values: list[bytes], sqlstate: str, message: str
) -> None:
    with RawClient(open_port) as client:
        for tag, content in parameter_message(sql, values, [], False):
            client.send(tag, content)
        fields = client.error()
        assert (fields["C"], message in fields["M"]) == (sqlstate, True)


def test_values_of_catalog_queries_are_never_sql(client: Any) -> None:
    named = "SELECT count(*) FROM pg_class WHERE relname = %s"
    for text in ("late' OR '1'='1", "'; DROP TABLE pg_class; --", "\\' OR 1=1 --", ":p1 ?1 $1"):
        assert client.execute(named, (text,)).fetchone() == (0,)
    assert client.execute(named, ("late",)).fetchone() == (1,)


def test_an_empty_statement_has_an_empty_answer(open_port: int) -> None:
    with RawClient(open_port) as client:
        for sql in ("", ";", " -- nothing", "/* nothing */ ;"):
            client.send(b"Q", sql.encode() + b"\0")
            assert client.tags_until(b"Z") == "IZ"
            for tag, content in parameter_message(sql, [], [], False):
                client.send(tag, content)
            assert client.tags_until(b"Z") == "12IZ"


def test_bytes_that_are_no_text_are_refused(open_port: int) -> None:
    with RawClient(open_port) as client:
        client.send(b"Q", b"SELECT '\xff'\0")
        assert client.error()["C"] == "22021"
        client.send(b"Q", b"SELECT 1\0")
        assert client.tags_until(b"Z").endswith("TDCZ")


# -- connections -----------------------------------------------------------------------------------


def test_any_database_is_the_session(port: int) -> None:
    with connect(port, dbname="nowhere") as client:
        assert client.execute("SELECT current_database()").fetchone() == ("nowhere",)
        assert client.execute("SELECT COUNT(*) FROM late").fetchone() == (40,)


def test_wrong_passwords_do_not_disturb_others(client: Any, port: int) -> None:
    def refusal(number: int) -> str:
        with pytest.raises(psycopg.OperationalError) as raised:
            connect(port, password=f"wrong {number}")
        return str(raised.value)

    with ThreadPoolExecutor(5) as pool:
        refusals = list(pool.map(refusal, range(10)))
    assert all('password authentication failed for user "anyone"' in text for text in refusals)
    assert client.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "message", [b"", b"\xff\xfe", b"SCRAM-SHA-256\0", b"SCRAM-SHA-256\0\0\0\0\x03n,,", b"x" * 99]
)
def test_a_malformed_login_is_one_line_of_the_log(
    client: Any, port: int, caplog: pytest.LogCaptureFixture, message: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", port)) as raw:
        start = struct.pack("!i", 3 << 16) + b"user\0someone\0\0"
        raw.sendall(struct.pack("!i", 4 + len(start)) + start)
        raw.sendall(b"p" + struct.pack("!i", 4 + len(message)) + message)
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert b"28P01" in answer or b"the messages of the login are malformed" in answer
    for record in caplog.records:
        assert record.getMessage().startswith("refused the login of user 'someone'")
        assert record.exc_info is None
    assert len(caplog.records) <= 1
    assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_malformed_first_message_is_one_line_of_the_log(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    for content in (struct.pack("!i", 80877102), struct.pack("!i", 3 << 16) + b"user"):
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(struct.pack("!i", 4 + len(content)) + content)
            assert raw.recv(1) == b""
    texts = [record.getMessage() for record in caplog.records]
    assert texts == ["refused a connection: its first message is malformed"] * 2


def test_ten_clients_read_catalogs_at_once(port: int) -> None:
    def tables(number: int) -> Any:
        with connect(port, user=f"user{number}") as client:
            query = "SELECT table_name, current_user FROM information_schema.views"
            return client.execute(query).fetchall()

    with ThreadPoolExecutor(10) as pool:
        listed = list(pool.map(tables, range(10)))
    assert listed == [[("late", f"user{number}")] for number in range(10)]


def test_a_client_that_speaks_before_tls_is_refused(tmp_path: Path, served: ServedSession) -> None:
    certificate, key = certificate_files(tmp_path)
    address = Address(password=PASSWORD, certificate=str(certificate), key=str(key))
    with serving(served, address) as port:
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(struct.pack("!ii", 8, 80877103))
            assert stranger.recv(1) == b"S"
            stranger.sendall(b"no handshake at all" * 10)
            while stranger.recv(1000):
                pass
        with connect(port, sslmode="require") as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
