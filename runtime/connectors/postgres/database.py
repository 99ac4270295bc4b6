"""Connect to a PostgreSQL database, and translate its errors to one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.errors import (
    CatalogError,
    ErrorKind,
    ExecutionError,
    SqlwinError,
    kind_in_words,
    packages_of,
)
from runtime.options.checks import bad_option, option_values
from runtime.spec.table import TableSpec

if TYPE_CHECKING:
    from psycopg import Connection

_JDBC = "jdbc:"
_SCHEMES = ("postgresql://", "postgres://")
# Parameters of PostgreSQL's JDBC driver under their names in libpq
_JDBC_PARAMETERS = {"ApplicationName": "application_name", "connectTimeout": "connect_timeout"}
# A part of a name as in SQL: quoted, or else in lower case
_NAME_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_CONNECT_SECONDS = 10
# SQLSTATEs of a server that stops, starts or has no free connection
_AWAY = ("57P01", "57P02", "57P03", "53300")
_LOGIN = ("28000", "28P01")
# A refused connection has no SQLSTATE
_LOGIN_MESSAGE = re.compile(
    r'authentication failed|no password|^role ".*" (?:does not exist|is not)'
)
_COLUMN_OF_COPY = re.compile(r"column ([^:]+)(?:: (.*))?", re.DOTALL)


class DatabaseAwayError(ExecutionError):
    """Error for a database that cannot be reached or a lost connection."""


@dataclass(frozen=True)
class TableName:
    """Name of a table in the database. An empty schema means the first of the search path."""

    schema: str
    table: str

    def sql(self) -> str:
        """Return the quoted name."""
        return ".".join(map(quote, filter(None, (self.schema, self.table))))


def quote(name: str) -> str:
    """Quote a name for PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


def table_name(spec: TableSpec) -> TableName:
    """Return the table that the option 'table-name' names: `table`, `schema.table`, `"Table"`.

    Raises:
        CatalogError: The name is malformed.
    """
    text = option_values(spec).get("table-name", "").strip()
    if not text:
        raise bad_option(spec, "option 'table-name' is required to write", "it names the table")
    parts, at = [], 0
    while match := _NAME_PART.match(text, at):
        parts.append(match[1].replace('""', '"') if match[1] else match[2].strip().lower())
        at = match.end() + 1
        if text[match.end() : at] != ".":
            break
    if at <= len(text) or text.endswith(".") or len(parts) > 2 or not all(parts):
        raise bad_option(
            spec,
            f"invalid value '{text}' for option 'table-name'",
            "it must be a table, or schema.table; put double quotes around capital letters",
        )
    return TableName(*(parts if len(parts) == 2 else ("", parts[0])))


def check_url(spec: TableSpec) -> None:
    """Check the option 'url' without connecting.

    Raises:
        CatalogError: It is not a URL of PostgreSQL.
    """
    url = option_values(spec)["url"]
    if url.lower().startswith(_JDBC) and not url.lower().startswith(f"{_JDBC}postgresql:"):
        raise bad_option(
            spec,
            "option 'url' is not a URL of PostgreSQL",
            "for another database use 'connector' = 'spark', 'format' = 'jdbc', 'url' = "
            "'jdbc:...', 'dbtable' = 'name'; add the driver's JAR with --conf spark.jars",
        )
    if not url.removeprefix(_JDBC).startswith(_SCHEMES):
        raise bad_option(
            spec,
            "option 'url' is not a URL of PostgreSQL",
            "it must look like postgresql://host:5432/database, or "
            "postgresql:///database?host=/directory for a socket",
        )


def connection_text(spec: TableSpec) -> str:
    """Return the connection string for libpq.

    Raises:
        CatalogError: libpq refuses a parameter of the URL.
        SetupError: The package is missing.
    """
    with packages_of(
        "postgres",
        f"table `{spec.name}`: connector '{spec.connector}'",
        [f"'{spec.connector}'", spec.name],
    ):
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    values = option_values(spec)
    url = values["url"].removeprefix(_JDBC)
    for name, own in _JDBC_PARAMETERS.items():
        url = re.sub(rf"([?&]){name}=", rf"\1{own}=", url)
    url = re.sub(r"([?&])currentSchema=([^&]*)", r"\1options=-csearch_path%3D\2", url)
    login = {"user": values.get("username"), "password": values.get("password")}
    try:
        given = conninfo_to_dict(url)
        defaults = {"connect_timeout": _CONNECT_SECONDS, "application_name": "sqlwin"}
        more: dict[str, Any] = {k: v for k, v in defaults.items() if k not in given}
        more |= {name: value for name, value in login.items() if value is not None}
        return make_conninfo(url, **more)
    except ProgrammingError as error:
        raise bad_option(spec, f"option 'url': {_one_line(str(error))}") from error


def connect(spec: TableSpec) -> Connection:
    """Connect to the database of a table. The connection uses UTC and ISO dates.

    Raises:
        DatabaseAwayError: The server does not answer, or has no free connection.
        ExecutionError: The server refuses the login.
        CatalogError: The URL is wrong.
        SetupError: The package is missing.
    """
    text = connection_text(spec)
    import psycopg

    with errors_of(spec):
        connection = psycopg.connect(text, prepare_threshold=None)
        # settings of the role or the database must not change the text of values
        connection.execute(
            "SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO', false), "
            "set_config('extra_float_digits', '1', false), "
            "set_config('bytea_output', 'hex', false)"
        )
        connection.commit()
        return connection


@contextmanager
def errors_of(spec: TableSpec) -> Iterator[None]:
    """Translate errors of the database about a table.

    Raises:
        DatabaseAwayError: The connection cannot be made or was lost.
        ExecutionError: Any other error of the database.
    """
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise translate_error(spec, error) from error


def translate_error(spec: TableSpec, error: Any) -> SqlwinError:
    """Return the one-line error for an exception of psycopg."""
    import psycopg

    diagnostics = error.diag
    state, message = error.sqlstate or "", diagnostics.message_primary or ""
    table = f"table `{spec.name}`"
    if not message:
        message = _connection_failure(str(error))
    message = re.sub(r"^.*?(?:FATAL|ERROR):\s+", "", _one_line(message)) or kind_in_words(error)
    if state in _LOGIN or _LOGIN_MESSAGE.search(message):
        return ExecutionError(
            f"{table}: cannot log in to the database: {message}",
            subjects=(spec.name,),
            hint="check the options 'username' and 'password'",
        )
    if state == "3D000" or re.fullmatch(r'database ".*" does not exist', message):
        hint = "check the database at the end of 'url'"
        return ExecutionError(f"{table}: {message}", subjects=(spec.name,), hint=hint)
    is_lost = isinstance(error, psycopg.OperationalError) and (
        not state or state.startswith("08") or state in _AWAY
    )
    if is_lost:
        return DatabaseAwayError(
            f"{table}: the database cannot be reached: {message}",
            subjects=(spec.name,),
            hint="check the option 'url', and that the server is running",
        )
    return _statement_error(spec, state, message, diagnostics)


def _connection_failure(text: str) -> str:
    r"""Return the reason in libpq's report, which has lines for each address that it tried.

    Example:
        >>> _connection_failure(
        ...     'connection failed: connection to server at "::1", port 1 failed: Connection '
        ...     "refused\n\tIs the server running on that host and accepting TCP/IP connections?"
        ... )
        'connection to server at "::1", port 1 failed: Connection refused'
    """
    lines = text.replace("Multiple connection attempts failed", "").strip().splitlines()
    reasons = [line for line in lines if " failed: " in line or " is bad: " in line] or lines[-1:]
    return re.sub(r"^(?:- )?connection (?:failed|is bad): ", "", reasons[-1]) if reasons else ""


def _statement_error(spec: TableSpec, state: str, message: str, diagnostics: Any) -> SqlwinError:
    """Return the error for a statement that the database refused."""
    column = diagnostics.column_name
    value = None
    context = diagnostics.context or ""
    if column is None and context.startswith("COPY") and "column " in context:
        match = _COLUMN_OF_COPY.search(context.split(", ", 2)[-1])
        column, value = (None, None) if match is None else (match[1], match[2])
    where = f"table `{spec.name}`" + (f", column `{column}`" if column else "")
    text = f"{where}: {message}"
    if value and value not in message and value != "null input":
        text += f": {_one_line(value)}"
    detail = _one_line(diagnostics.message_detail or "")
    if detail and state[:2] in ("23", "42"):
        text += f": {detail.rstrip('.')}"
    hints = {
        "42501": "grant the user this privilege, or use another 'username'",
        "53100": "free some space on the disk of the database; the stream continues where it "
        "stopped when it is started again",
        "3F000": "create the schema in the database",
    }
    kind = ErrorKind.OUTPUT if state == "53100" else None
    subjects = (column, spec.name) if column else (spec.name,)
    error_type = CatalogError if state in ("42P01", "42703", "3F000") else ExecutionError
    return error_type(text, subjects=subjects, hint=hints.get(state), kind=kind)


def _one_line(text: str) -> str:
    return " ".join(text.split())
