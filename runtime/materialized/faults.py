"""Errors of materialized tables, each in one line."""

from __future__ import annotations

from runtime.errors import ExecutionError, kind_in_words
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
