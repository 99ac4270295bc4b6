"""Refusals of a read-only server."""

from __future__ import annotations

from runtime.errors import ReadOnlyError

WRITE = "start it with sqlwin serve --write"


def refusal(what: str, *, subject: str | None = None, hint: str = WRITE) -> ReadOnlyError:
    """Return the error for a statement that is not allowed.

    Args:
        what: What the server does not do, such as `cannot execute INSERT`.
        subject: Part of the statement at fault.
        hint: How to allow it.
    """
    subjects = () if subject is None else (subject,)
    return ReadOnlyError(f"{what}: the server is read-only", subjects=subjects, hint=hint)
