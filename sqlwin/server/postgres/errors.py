"""Refusals of what PostgreSQL means and sqlwin cannot do."""

from __future__ import annotations

from typing import Any

from pg_mimic import PgError

from runtime.errors import Position
from sqlwin.server.translation import UNSUPPORTED

UNDEFINED_FUNCTION, INVALID_TEXT = "42883", "22P02"


class UntranslatableError(PgError):  # type: ignore[misc]
    """A construct of PostgreSQL without a counterpart.

    Attributes:
        position: Its place in the text that was parsed, if known.
    """

    def __init__(
        self, message: str, position: Position | None, sqlstate: str, **fields: Any
    ) -> None:
        super().__init__(sqlstate, message, **fields)
        self.position = position


def unsupported(
    message: str,
    position: Position | None = None,
    sql: str | None = None,
    *,
    hint: str | None = None,
    sqlstate: str = UNSUPPORTED,
) -> UntranslatableError:
    """Return the refusal of a construct. `sql` is the text of the position."""
    fields = {} if hint is None else {"H": hint}
    return UntranslatableError(message, position, sqlstate, **fields)
