"""The server: addresses, passwords, TLS."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pg_mimic import IdentityProvider, PgServer, ScramSha256AuthPlugin, TrustAuthPlugin, messages
from pg_mimic.stream import ConnectionClosed, PgStream

from runtime.errors import SetupError
from sqlwin.server.buffered import BufferedWriter
from sqlwin.server.client import PostgresClient, ServedSession
from sqlwin.server.connection import ClientConnection, ClientStream
from sqlwin.server.jobs import LOG

# Strings of SQL have escapes with a backslash, as in Spark. Clients that quote values themselves
# must know.
_PARAMETERS = {"standard_conforming_strings": "off"}


@dataclass(frozen=True)
class Address:
    """Where a server listens, and whom it lets in.

    Attributes:
        host: Address of an interface.
        port: Port, 0 for any free one.
        password: Password of every user. None: no password is needed.
        certificate: File with the TLS certificate. None: no TLS. With it, TLS is required.
        key: File with its private key.
    """

    host: str = "127.0.0.1"
    port: int = 0
    password: str | None = None
    certificate: str | None = None
    key: str | None = None


async def serve(
    served: ServedSession, address: Address, started: Callable[[int], None], stop: asyncio.Event
) -> None:
    """Serve clients until `stop` is set, then close their connections.

    Args:
        served: Session to serve.
        address: Where to listen.
        started: Called with the port once clients can connect.
        stop: Event that ends the server.

    Raises:
        SetupError: The port is in use, or the certificate cannot be read.
    """
    # a wrong password is logged with a trace of Python
    logging.getLogger("pg_mimic").setLevel(logging.CRITICAL)
    # pg-mimic parses each statement as PostgreSQL's first, which warns of EXPLAIN
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    server = _Server(served, address)
    try:
        listening = await server.start_server(address.host, address.port)
    except OSError as error:
        raise SetupError(
            f"cannot listen on {address.host}:{address.port}: {error.strerror}",
            hint="use another --port, or --port 0 for any free one",
        ) from error
    started(listening.sockets[0].getsockname()[1])
    await stop.wait()
    await server.stop()


def serve_until_signal(
    served: ServedSession, address: Address, started: Callable[[int], None]
) -> None:
    """Serve clients until SIGINT or SIGTERM. For arguments and errors see `serve`."""

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(served, address, started, stop)

    asyncio.run(main())


class _OnePassword(IdentityProvider):  # type: ignore[misc]
    """The same password for every user name.

    pg-mimic takes an unknown user's password to be empty, so every user is known.
    """

    def __init__(self, password: str) -> None:
        self._password = password

    async def get_password(self, username: str) -> str:
        """Return the password."""
        return self._password


class _Server(PgServer):  # type: ignore[misc]
    """A server whose clients share a session.

    Private API, as of pg-mimic 0.1.3: `_negotiate_startup`, which declines TLS, `_handle_client`,
    which creates the connection, `_connections`, `_allocate_pid` and `_tasks`.
    """

    def __init__(self, served: ServedSession, address: Address) -> None:
        password = address.password
        super().__init__(
            lambda: PostgresClient(served),
            lambda user: TrustAuthPlugin() if password is None else ScramSha256AuthPlugin(),
            None if password is None else _OnePassword(password),
            "15.0 (sqlwin)",
        )
        self.parameter_status |= _PARAMETERS
        self._tls = _tls_context(address)

    async def stop(self) -> None:
        """Stop listening, disconnect all clients, and wait for their tasks."""
        self.close()
        await self.wait_closed()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _handle_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        stream = ClientStream(reader, BufferedWriter(writer))
        try:
            parameters = await self._negotiate_startup(stream)
        except (ConnectionClosed, OSError):
            return  # the client has disconnected, or is not one of PostgreSQL
        except (ValueError, struct.error):
            LOG.warning("refused a connection: its first message is malformed")
            return
        if parameters is None:
            return
        number, secret = self._allocate_pid(), secrets.randbits(31)
        connection = ClientConnection(
            stream, self.session_factory(), self, number, secret, parameters
        )
        self._connections[number] = connection
        try:
            await connection.run()
        except ConnectionClosed:
            pass  # while the server answered
        finally:
            del self._connections[number]

    async def _negotiate_startup(self, stream: PgStream) -> dict[str, str] | None:
        """Read the first messages of a client, and return its parameters. None: no session."""
        is_secure = False
        while True:
            code, payload = await stream.read_startup_packet()
            if code == messages.SSL_REQUEST_CODE and self._tls is not None and not is_secure:
                stream.write(b"S")
                await stream.drain()
                await stream.writer.start_tls(self._tls)
                is_secure = True
            elif code in (messages.SSL_REQUEST_CODE, messages.GSSENC_REQUEST_CODE):
                stream.write(b"N")
                await stream.drain()
            else:
                break
        if code == messages.CANCEL_REQUEST_CODE:
            self.cancel(*messages.parse_cancel_request(payload))
            await stream.close()
            return None
        if self._tls is not None and not is_secure:
            fields = {"S": "FATAL", "V": "FATAL", "C": "28000"}
            fields["M"] = "the server requires TLS: connect with sslmode=require"
            stream.write(messages.make_error_response(fields))
            await stream.drain()
            await stream.close()
            return None
        parameters: dict[str, str] = messages.parse_startup_message(payload)
        return parameters


def _tls_context(address: Address) -> Any:
    """Return the TLS context of a certificate, None without one.

    Raises:
        SetupError: The files cannot be read, or do not belong together.
    """
    if address.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(address.certificate, address.key)
    except OSError as error:
        files = " and ".join(filter(None, (address.certificate, address.key)))
        reason = getattr(error, "reason", None) or error.strerror
        raise SetupError(f"cannot use the certificate in {files}: {reason}") from error
    return context
