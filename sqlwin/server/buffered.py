"""A writer that sends messages together."""

from __future__ import annotations

import asyncio
import ssl

# Bytes after which a buffer is sent before `drain`
_MAX_BYTES = 64 * 1024


class BufferedWriter:
    """Writer of a connection that collects messages until `drain`.

    asyncio's writer calls `send` for each message, which takes longer than computing a row. The
    protocol's server drains after each of the client's messages.

    Args:
        writer: Sends the bytes.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._waiting = bytearray()

    def write(self, data: bytes) -> None:
        """Send bytes with the next `drain`, or now if many wait."""
        self._waiting += data
        if len(self._waiting) >= _MAX_BYTES:
            self._send()

    async def drain(self) -> None:
        """Send all bytes, and wait while the client does not take them."""
        self._send()
        await self._writer.drain()

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Encrypt the connection from now on."""
        self._send()
        await self._writer.start_tls(context)

    def close(self) -> None:
        """Send all bytes, and close the connection."""
        self._send()
        self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until the connection is closed."""
        await self._writer.wait_closed()

    def _send(self) -> None:
        if self._waiting:
            self._writer.write(bytes(self._waiting))
            self._waiting.clear()
