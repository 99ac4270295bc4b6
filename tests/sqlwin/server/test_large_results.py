"""Rows are sent while they are computed, with psycopg and without Spark."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
import sqlwin.server.client as client_module
from sqlwin.dbapi.fetching import FetchedRows, rows_of
from sqlwin.result import Result
from sqlwin.server.client import ServedSession
from sqlwin.server.server import Address
from tests.observing import wait_until
from tests.sqlwin.server.serving import serving
from tests.unstarted import unstarted_spark

N_ROWS = 1_000_000
QUERY = "SELECT n, text FROM big"
# Rows that fit into the buffers of the sockets are sent before the client reads them
MAX_SENT = N_ROWS // 2


class WatchedRows(FetchedRows):
    """Rows that record how many the server has fetched, and whether it has closed them."""

    is_closed = False

    def close(self) -> None:
        super().close()
        self.is_closed = True


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedSession]:
    """A session with the table `big`, whose rows have 200 bytes."""
    path = tmp_path_factory.mktemp("big") / "big.parquet"
    numbers = pa.array(range(N_ROWS))
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * N_ROWS), ["x" * 200]).cast(pa.string())
    pq.write_table(pa.table({"n": numbers, "text": texts}), path, row_group_size=20_000)
    session = sqlwin.connect(unstarted_spark())
    session.execute(f"CREATE TABLE big WITH ('connector' = 'filesystem', 'path' = '{path}')")
    yield ServedSession(session, can_write=False, double_quotes="identifier")
    session.close()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[WatchedRows]:
    """The rows of each query that the server runs from now on."""
    seen: list[WatchedRows] = []

    def watch(result: Result) -> FetchedRows | None:
        rows = rows_of(result)
        if rows is None:
            return None
        seen.append(WatchedRows(rows._batches, rows._schema))
        return seen[-1]

    monkeypatch.setattr(client_module, "rows_of", watch)
    return seen


def connect(port: int) -> Any:
    return psycopg.connect(host="127.0.0.1", port=port, user="a", dbname="d", autocommit=True)


@pytest.mark.variants(1)
@pytest.mark.parametrize("is_simple", [True, False], ids=["simple", "extended"])
def test_the_server_holds_a_part_of_a_large_result_and_frees_it_when_the_client_leaves(
    served: ServedSession, watched: list[WatchedRows], is_simple: bool
) -> None:
    with serving(served, Address()) as port, connect(port) as other:
        client = RawClient(port)
        if is_simple:
            client.send(b"Q", QUERY.encode() + b"\0")
        else:
            client.send(b"P", b"\0" + QUERY.encode() + b"\0\0\0")
            client.send(b"B", bytes(8))
            client.send(b"E", bytes(5))
            client.send(b"S", b"")
        client.tags_until(b"D")
        (rows,) = watched
        # the server answers other clients although this one does not read
        assert other.execute("SELECT 1").fetchone() == (1,)
        assert 0 < rows.n_returned < MAX_SENT
        client.close()
        wait_until(lambda: rows.is_closed)
        assert rows.n_returned < MAX_SENT
        assert next(rows._batches, None) is None


def test_all_rows_of_a_large_result_arrive_in_order(served: ServedSession) -> None:
    with serving(served, Address()) as port, connect(port) as client:
        numbers = (n for (n,) in client.cursor().stream("SELECT n FROM big WHERE n < 100001"))
        assert all(n == expected for expected, n in enumerate(numbers))
        assert client.execute("SELECT COUNT(*) FROM big").fetchone() == (N_ROWS,)


def test_a_portal_is_read_in_parts_until_its_transaction_ends(
    served: ServedSession, watched: list[WatchedRows]
) -> None:
    with serving(served, Address()) as port, RawClient(port) as client:
        client.send(b"Q", b"BEGIN\0")
        assert client.tags_until(b"Z") == "CZ"
        client.send(b"P", b"\0" + QUERY.encode() + b"\0\0\0")
        client.send(b"B", b"p\0\0" + bytes(6))
        for n_rows in (2, 1500):
            client.send(b"E", b"p\0" + struct.pack("!i", n_rows))
        client.send(b"S", b"")
        assert client.tags_until(b"Z") == f"12{'D' * 2}s{'D' * 1500}sZ"
        (rows,) = watched
        assert (rows.n_returned, rows.is_closed) == (1502, False)
        client.send(b"Q", b"COMMIT\0")
        client.send(b"S", b"")
        client.tags_until(b"Z")
        wait_until(lambda: rows.is_closed)


def test_an_error_after_the_first_rows_ends_the_result(served: ServedSession) -> None:
    query = "SELECT 1 / (n - 99999) FROM big WHERE n < 100000"
    with serving(served, Address()) as port, connect(port) as client:
        with pytest.raises(psycopg.errors.DataException, match="division by zero"):
            client.execute(query)
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_program_with_another_protocol_is_disconnected(served: ServedSession) -> None:
    with serving(served, Address()) as port:
        for sent in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\0\0\0\x08\0\x03\0\0",
            b"\xff" * 64,
            b"\0\0\0\x04",
        ):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(sent)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(1000):
                    pass
        with connect(port) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)


class RawClient:
    """A connection that sends messages one by one."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._file = self._socket.makefile("rb")
        startup = struct.pack("!i", 3 << 16) + b"user\0a\0database\0d\0\0"
        self._socket.sendall(struct.pack("!i", len(startup) + 4) + startup)
        self.tags_until(b"Z")

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._file.close()
        self._socket.close()

    def send(self, tag: bytes, content: bytes) -> None:
        self._socket.sendall(tag + struct.pack("!i", len(content) + 4) + content)

    def tags_until(self, last: bytes) -> str:
        """Return the kinds of the server's messages up to one of the kind `last`."""
        tags = b""
        while not tags.endswith(last):
            tags += self._read()[0]
        return tags.decode()

    def error(self) -> dict[str, str]:
        """Return the fields of the next error, and read on until the server is ready."""
        tag = content = b""
        while tag != b"E":
            tag, content = self._read()
            assert tag != b"Z", "the server has not refused"
        self.tags_until(b"Z")
        return {field[:1].decode(): field[1:].decode() for field in content.split(b"\0") if field}

    def _read(self) -> tuple[bytes, bytes]:
        header = self._file.read(5)
        return header[:1], self._file.read(struct.unpack("!i", header[1:])[0] - 4)
