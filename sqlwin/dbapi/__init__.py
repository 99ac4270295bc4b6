"""Python's database API (PEP 249) on sqlwin sessions.

Example:
    >>> import sqlwin.dbapi
    >>> with sqlwin.dbapi.connect() as connection, connection.cursor() as cursor:
    ...     cursor.execute("SELECT ? + 1 AS n", [41]).fetchall()
    [(42,)]
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING

from sqlwin.dbapi.connection import Connection, Cursor
from sqlwin.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    standard_errors,
)
from sqlwin.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    ColumnDescription,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlwin.session import Session

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "ColumnDescription",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
# threads may share the module and connections
threadsafety = 2
# `:name` with a mapping is accepted too
paramstyle = "qmark"


def connect(
    script: str | PathLike[str] | None = None,
    *,
    session: Session | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Connection:
    """Connect to a new session, or to an open one.

    Args:
        script: SQL file to run first, for example with CREATE TABLE statements.
        session: Open session to use. Closing the connection leaves it open.
        spark: As for `sqlwin.connect`, like all arguments that follow.
        master: Master URL of Spark.
        conf: Spark configuration.
        remote: Address of a Spark Connect server.
        settings: Settings of sqlwin.

    Raises:
        InterfaceError: There is a session and arguments to open one.
        OperationalError: The script cannot be read, or Spark cannot be reached.
        DatabaseError: The script is invalid or fails.
    """
    import sqlwin

    options = {"spark": spark, "master": master, "conf": conf, "remote": remote}
    if session is not None and any(value is not None for value in (*options.values(), settings)):
        raise InterfaceError("connect() got both a session and options to open one")
    with standard_errors():
        opened = session or sqlwin.connect(
            spark, master=master, conf=conf, remote=remote, settings=settings
        )
    connection = Connection(opened, closes_session=session is None)
    try:
        if script is not None:
            _run_script(opened, fspath(script))
    except BaseException:
        connection.close()
        raise
    return connection


def _run_script(session: Session, script: str) -> None:
    try:
        with open(script, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise OperationalError(f"cannot read the script {script}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise OperationalError(f"cannot read the script {script}: it is not UTF-8") from error
    with standard_errors():
        session.execute(text, file=script)
