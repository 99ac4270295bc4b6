"""Messages of a connection are sent together."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from sqlwin.server.buffered import BufferedWriter


class Connection:
    """A writer that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def write(self, data: bytes) -> None:
        self.calls.append(f"{len(data)} bytes")

    async def drain(self) -> None:
        self.calls.append("drain")

    async def start_tls(self, context: object) -> None:
        self.calls.append("tls")

    def close(self) -> None:
        self.calls.append("close")

    async def wait_closed(self) -> None:
        self.calls.append("closed")


def test_messages_wait_for_the_end_of_an_answer_or_for_many_bytes() -> None:
    async def run() -> None:
        connection = Connection()
        writer = BufferedWriter(cast(Any, connection))
        writer.write(b"abc")
        writer.write(b"de")
        assert connection.calls == []
        await writer.drain()
        await writer.drain()
        assert connection.calls == ["5 bytes", "drain", "drain"]
        connection.calls.clear()
        for _ in range(3):
            writer.write(b"x" * 30_000)
        assert connection.calls == ["90000 bytes"]
        writer.write(b"last")
        writer.close()
        await writer.wait_closed()
        assert connection.calls[1:] == ["4 bytes", "close", "closed"]

    asyncio.run(run())


def test_the_answer_to_a_request_for_tls_is_sent_in_the_clear() -> None:
    async def run() -> None:
        connection = Connection()
        writer = BufferedWriter(cast(Any, connection))
        writer.write(b"S")
        await writer.start_tls(cast(Any, None))
        assert connection.calls == ["1 bytes", "tls"]

    asyncio.run(run())
