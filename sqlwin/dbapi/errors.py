"""The exception classes of PEP 249, and the class for each kind of sqlwin error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.errors import ErrorKind, SqlwinError


class Warning(Exception):
    """A warning. sqlwin raises none; notes about a result are in `Cursor.messages`."""


class Error(Exception):
    """Base class of the errors.

    The text is the report that sqlwin prints: message, place in the SQL, hint. `__cause__` is the
    SqlwinError with these as fields, or None if the API was used wrongly.
    """


class InterfaceError(Error):
    """The API was used wrongly: for example, the connection or the cursor is closed."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value cannot be computed: division by zero, overflow, a string that is not a number."""


class OperationalError(DatabaseError):
    """The statement failed while it ran, or was cancelled: files, Spark, Java, the cluster."""


class IntegrityError(DatabaseError):
    """A constraint is violated. sqlwin has no constraints and never raises it."""


class InternalError(DatabaseError):
    """An internal error of the database. sqlwin never raises it."""


class ProgrammingError(DatabaseError):
    """The statement is invalid: syntax, names, types, options, settings, or parameters."""


class NotSupportedError(DatabaseError):
    """sqlwin, or a query over a stream, does not support the operation."""


# Other kinds are mistakes in the statement
_CLASSES = {
    ErrorKind.DATA: DataError,
    ErrorKind.RAISED: DataError,
    ErrorKind.STREAM: NotSupportedError,
    ErrorKind.EXECUTION: OperationalError,
    ErrorKind.OUTPUT: OperationalError,
    ErrorKind.CHECKPOINT: OperationalError,
    ErrorKind.CANCELLED: OperationalError,
    ErrorKind.SETUP: OperationalError,
}


@contextmanager
def standard_errors() -> Iterator[None]:
    """Raise SqlwinErrors of the block as errors of the standard.

    Raises:
        DatabaseError: The block raised a SqlwinError, which is the cause.
    """
    try:
        yield
    except SqlwinError as error:
        raise _CLASSES.get(error.kind, ProgrammingError)(str(error)) from error
