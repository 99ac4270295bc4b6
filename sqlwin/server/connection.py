"""Messages and rows of a connection, with a bounded number of encoded rows in memory."""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
from collections.abc import Callable
from typing import Any

from pg_mimic import PgError, ResultColumn, messages
from pg_mimic.connection import Connection, PortalEntry, _field_specs, command_tag
from pg_mimic.results import encode_row
from pg_mimic.stream import ConnectionClosed, PgStream

from sqlwin.server.catalog.statement import SETTINGS
from sqlwin.server.cursors import ServerCursor
from sqlwin.server.jobs import LOG
from sqlwin.server.settings import ClientSettings, options_of
from sqlwin.server.translation import CHAR, TEXT, UNSUPPORTED

# Rows that are Python values at once, and bytes of messages after which the client must have read
_ROWS_AT_ONCE = 1000
_MAX_BYTES = 64 * 1024
# Messages that are read while a statement runs, to notice that the client has disconnected
_MESSAGES_AHEAD = 16
_OF_STATEMENT = (messages.PARSE, messages.BIND, messages.DESCRIBE, messages.EXECUTE)
_TAGS_OF_CURSORS = {"CLOSE": "CLOSE CURSOR", "DECLARE": "DECLARE CURSOR"}
# PostgreSQL's limits for clients that have not given their password yet
_LONGEST_STARTUP = 10_000
_LONGEST_PASSWORD = 65_535
# First word of a statement, after comments
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*([A-Za-z]*)", re.DOTALL)
# First words of queries; PostgreSQL reports all of them as SELECT
_QUERY_WORDS = ("", "FROM", "TABLE", "VALUES", "WITH")


class ClientStream(PgStream):  # type: ignore[misc]
    """The messages of a client. A lost connection raises ConnectionClosed."""

    def __init__(self, reader: asyncio.StreamReader, writer: Any) -> None:
        super().__init__(reader, writer)
        self._messages: asyncio.Queue[tuple[bytes, bytes] | None] | None = None

    async def read_startup_packet(self) -> tuple[int, bytes]:
        """Return the code and the content of a message before the password.

        Raises:
            ConnectionClosed: The client has disconnected, or does not speak PostgreSQL's protocol.
        """
        header = await self._read_exactly(8)
        length = int.from_bytes(header[:4], "big")
        if not 8 <= length <= _LONGEST_STARTUP:
            raise ConnectionClosed
        return int.from_bytes(header[4:], "big"), await self._read_exactly(length - 8)

    async def read_message(self) -> tuple[bytes, bytes]:
        """Return the kind and the content of the next message.

        Raises:
            ConnectionClosed: The client has disconnected.
        """
        if self._messages is None:
            return await self._next_message(_LONGEST_PASSWORD)
        message = await self._messages.get()
        if message is None:
            raise ConnectionClosed
        return message

    def read_ahead(self, on_end: Callable[[], None]) -> asyncio.Task[None]:
        """Read messages while statements run, and call `on_end` when the client disconnects.

        `read_message` returns them from now on. The end of a client with more than
        `_MESSAGES_AHEAD` unanswered messages is noticed later, when the server writes to it.

        Returns:
            The task, which the caller cancels.
        """
        read: asyncio.Queue[tuple[bytes, bytes] | None] = asyncio.Queue(_MESSAGES_AHEAD)
        self._messages = read

        async def run() -> None:
            try:
                while True:
                    await read.put(await self._next_message(None))
            except ConnectionClosed:
                on_end()
                await read.put(None)

        return asyncio.ensure_future(run())

    async def drain(self) -> None:
        """Send all messages, and wait while the client does not read them.

        Raises:
            ConnectionClosed: The client has disconnected.
        """
        try:
            await super().drain()
        except OSError as error:
            raise ConnectionClosed from error

    async def _next_message(self, most_bytes: int | None) -> tuple[bytes, bytes]:
        header = await self._read_exactly(5)
        length = int.from_bytes(header[1:], "big") - 4
        if length < 0 or (most_bytes is not None and length > most_bytes):
            raise ConnectionClosed
        return header[:1], await self._read_exactly(length)

    async def _read_exactly(self, n: int) -> bytes:
        try:
            read: bytes = await super()._read_exactly(n)
        except OSError as error:
            raise ConnectionClosed from error
        return read


class ClientConnection(Connection):  # type: ignore[misc]
    """A connection that sends rows while they are computed.

    pg-mimic collects all rows of a result, and all bytes of its messages, before it sends any. Here
    a slow client slows the query down, and a client that disconnects cancels it.

    Private API, as of pg-mimic 0.1.3: the methods below that begin with an underscore, and
    `_field_specs`.
    """

    stream: ClientStream
    session_vars: ClientSettings
    tx_status: bytes
    # Time of the event loop at which the messages of the current statement are cancelled
    _deadline: float | None = None

    def warn(self, text: str) -> None:
        """Send a warning with the next answer. Called in any thread."""
        fields = {"S": "WARNING", "V": "WARNING", "C": "01000", "M": text}
        message = messages.make_notice_response(fields)
        with contextlib.suppress(RuntimeError):  # the server has stopped
            self._loop.call_soon_threadsafe(self.stream.write, message)

    def close_portal(self, name: str) -> None:
        """Close the portal of a name, if it exists."""
        entry = self.portals.pop(name, None)
        if entry is not None:
            _close_portal(entry)

    async def _authenticate(self) -> bool:
        self._loop = asyncio.get_running_loop()
        version = self.server.parameter_status["server_version"]
        try:
            if not await self._has_password():
                return False
            options = options_of(self.startup_params)
            self.session_vars = ClientSettings(SETTINGS | {"server_version": version}, options)
        except PgError as error:
            fields = {"S": "FATAL", "V": "FATAL", "C": error.sqlstate, "M": error.message}
            self.stream.write(messages.make_error_response(fields | error.fields))
            await self.stream.drain()
            return False
        return True

    async def _has_password(self) -> bool:
        """Return whether the client has sent the password.

        Raises:
            PgError: Its messages are malformed.
        """
        try:
            return bool(await super()._authenticate())
        except ConnectionClosed:
            raise
        except Exception as error:  # the libraries parse bytes of anyone, and raise anything
            reason = error.message if isinstance(error, PgError) else "its messages are malformed"
            LOG.warning("refused the login of user %r: %s", self.username, reason)
            raise PgError("08P01", "the messages of the login are malformed") from error

    async def _command_loop(self) -> None:
        reading = self.stream.read_ahead(self.request_cancel)
        try:
            await super()._command_loop()
        finally:
            for name in list(self.portals):
                self.close_portal(name)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _dispatch(self, tag: bytes, payload: bytes) -> None:
        try:
            if tag in (messages.QUERY, messages.PARSE):
                for text in payload.split(b"\0", 2)[:2]:  # names and types follow in PARSE
                    text.decode()
        except UnicodeDecodeError as error:
            self._refuse(_encoding_error(error))
            return
        timeout_s = self.session_vars.timeout_s
        if tag in _OF_STATEMENT and self._deadline is None and timeout_s is not None:
            self._deadline = self._loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(self._deadline):
                await super()._dispatch(tag, payload)
        except TimeoutError:
            self._refuse(_timed_out())
        if tag in (messages.EXECUTE, messages.SYNC):
            self._deadline = None
        if tag in (messages.QUERY, messages.SYNC) and self.tx_status == b"I":
            self._end_transaction()

    def _end_transaction(self) -> None:
        """Close the portals of a transaction, and undo its SET LOCAL."""
        for name, entry in list(self.portals.items()):
            if not (isinstance(entry, ServerCursor) and entry.is_held):
                self.close_portal(name)
        self.session_vars.end_transaction()

    async def _execute_one_simple_statement(self, sql: str) -> None:
        try:
            async with asyncio.timeout(self.session_vars.timeout_s):
                await self._run_simple_statement(sql)
        except TimeoutError as error:
            raise _timed_out() from error

    async def _run_simple_statement(self, sql: str) -> None:
        self._check_transaction(sql)
        statement = await self.session.prepare(sql, [])
        columns = await statement.describe()
        entry = PortalEntry(statement.bind([]), columns, statement.sql)
        if columns is not None:
            self.stream.write(messages.make_row_description(_field_specs(columns)))
        try:
            await self._send_rows(entry, 0)
        finally:
            _close_portal(entry)
        self._complete(entry)

    async def _handle_bind(self, parsed: messages.ParsedBind) -> None:
        self.close_portal(parsed.portal_name)
        await super()._handle_bind(parsed)

    async def _handle_execute(self, parsed: Any) -> None:
        entry = self._get_portal(parsed.portal_name)
        self._check_transaction(entry.sql)
        if await self._send_rows(entry, parsed.max_rows):
            self.stream.write(messages.make_portal_suspended())
        else:
            self._complete(entry)

    async def _handle_close(self, parsed: Any) -> None:
        if parsed.kind != messages.TARGET_STATEMENT:
            self.close_portal(parsed.name)
        await super()._handle_close(parsed)

    async def _send_rows(self, entry: PortalEntry, max_rows: int) -> bool:
        """Send the next rows of a portal, at most `max_rows` if it is positive.

        Returns:
            Whether more rows may follow.
        """
        n_sent, n_bytes = 0, 0
        columns = [_encoded(column) for column in entry.columns or ()]
        while True:
            n_wanted = _ROWS_AT_ONCE
            if max_rows > 0:
                n_wanted = min(n_wanted, max_rows - n_sent)
            rows, has_more = await entry.portal.execute(n_wanted)
            entry.rows_returned += len(rows)
            n_sent += len(rows)
            for row in rows if entry.columns is not None else ():
                message = _row_message(row, columns, entry.result_format_codes)
                self.stream.write(message)
                n_bytes += len(message)
                if n_bytes >= _MAX_BYTES:
                    await self.stream.drain()
                    n_bytes = 0
            if not has_more or n_sent == max_rows > 0:
                return bool(has_more)

    def _complete(self, entry: PortalEntry) -> None:
        """Tell the client that a statement is complete."""
        if entry.sql:
            self.stream.write(messages.make_command_complete(_tag(entry)))
        else:
            self.stream.write(messages.make_empty_query_response())

    def _decode_param(
        self, value: bytes | None, format_code: int, param_oids: list[int | None], index: int
    ) -> Any:
        try:
            return super()._decode_param(value, format_code, param_oids, index)
        except UnicodeDecodeError as error:
            raise _encoding_error(error) from error
        except (struct.error, ValueError) as error:
            kind = "22P03" if format_code else "22P02"
            raise PgError(kind, f"the value of the parameter ${index + 1} is malformed") from error

    def _refuse(self, error: PgError) -> None:
        """Answer a message with an error, and ignore the messages up to the next Sync."""
        fields = {"S": "ERROR", "V": "ERROR", "C": error.sqlstate, "M": error.message}
        self.stream.write(messages.make_error_response(fields))
        if self.tx_status != b"I":
            self.tx_status = b"E"
        self._ignore_until_sync = True

    def _check_transaction(self, sql: str) -> None:
        """Refuse a statement in a transaction that has failed.

        Raises:
            PgError: The transaction has failed, and the statement does not end it.
        """
        from pg_mimic.errors import IN_FAILED_SQL_TRANSACTION
        from pg_mimic.middleware import is_transaction_end

        if self.tx_status == b"E" and not is_transaction_end(sql):
            raise PgError(
                IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            )


def _timed_out() -> PgError:
    return PgError("57014", "canceling statement due to statement timeout")


def _encoding_error(error: UnicodeDecodeError) -> PgError:
    byte = error.object[error.start]
    return PgError("22021", f'invalid byte sequence for encoding "UTF8": 0x{byte:02x}')


def _tag(entry: PortalEntry) -> str:
    """Return the statement's kind and its number of rows: returned by a query, else written."""
    first = _FIRST_WORD.match(entry.sql)
    word = first[1].upper() if first else ""
    n_rows = entry.rows_returned
    if entry.columns is None:
        # pg-mimic's own portals write nothing
        n_rows = getattr(entry.portal, "n_written", n_rows)
    tag: str = command_tag("SELECT" if word in _QUERY_WORDS else word, n_rows)
    return _TAGS_OF_CURSORS.get(tag, tag)


def _encoded(column: ResultColumn) -> ResultColumn:
    """Return a column as pg-mimic can write it: it lacks the type "char" in binary form."""
    return ResultColumn(column.name, TEXT) if column.oid == CHAR else column


def _close_portal(entry: PortalEntry) -> None:
    close = getattr(entry.portal, "close", None)
    if close is not None:  # pg-mimic's own portals hold nothing
        close()


def _row_message(
    row: tuple[object, ...], columns: list[ResultColumn], format_codes: list[int]
) -> bytes:
    """Return the message of a row.

    Raises:
        PgError: The client wants a value in binary form, which pg-mimic cannot write.
    """
    try:
        message: bytes = messages.make_data_row(encode_row(row, columns, format_codes))
    except ValueError as error:
        raise PgError(UNSUPPORTED, str(error)) from error
    return message
