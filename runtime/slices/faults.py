"""What goes wrong with tables of slices, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.connectors.lake.places import TablePlace
from runtime.errors import ExecutionError, SetupError


class UnknownOutcome(ExecutionError):
    """Nobody can say whether a version was written: its files stay, and count if it was."""


def broken(name: str, place: TablePlace, error: Exception) -> ExecutionError:
    """The error for a table that a library cannot read or write, in one line."""
    error = place.explained(error)
    said = " ".join(str(error).split()) or type(error).__name__
    if place.store is not None and isinstance(error, OSError) and error.strerror:
        said = error.strerror
    path = place.path
    return ExecutionError(
        f"materialized table `{name}` at {path}: {said}" if name else f"{path}: {said}",
        subjects=(name,) if name else (),
    )


@contextmanager
def package(name: str) -> Iterator[None]:
    """A block that imports the package, with an error that says how it is installed.

    Raises:
        SetupError: it is not there.
    """
    try:
        yield
    except ImportError as error:
        raise SetupError(
            f"materialized table `{name}` needs the package deltalake: {error}",
            subjects=(name,),
            hint="pip install 'sqlwin[lake]'",
        ) from error
