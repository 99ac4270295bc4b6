"""Errors of slice tables, each in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.errors import ExecutionError, SetupError, kind_in_words
from runtime.lake.places import TablePlace


class UnknownOutcome(ExecutionError):
    """Error when the store did not report whether it wrote a version. Its files stay."""


def table_error(name: str, place: TablePlace, error: Exception) -> ExecutionError:
    """Return a one-line error for a table that the library cannot read or write."""
    error = place.explain_error(error)
    reason = " ".join(str(error).split()) or kind_in_words(error)
    if place.store is not None and isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    path = place.path
    return ExecutionError(
        f"materialized table `{name}` at {path}: {reason}" if name else f"{path}: {reason}",
        subjects=(name,) if name else (),
    )


@contextmanager
def require_package(name: str) -> Iterator[None]:
    """Turn a failed import of the package in this block into an error with install instructions.

    Raises:
        SetupError: The package is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise SetupError(
            f"materialized table `{name}` requires the package deltalake: {error}",
            subjects=(name,),
            hint="pip install 'sqlwin[lake]'",
        ) from error
