"""Refusals: why sqlwin leaves something to Spark or to another way of computing it.

A function that translates raises `Refused`. A caller that falls back, or that shows the reason,
holds the `Refusal`; see `tried`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Refusal:
    """Why an expression, a query or a table is refused.

    Attributes:
        reason: What prevents it.
        consequence: What Spark does instead. Empty if the reason says so.
    """

    reason: str
    consequence: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.consequence}" if self.consequence else self.reason

    def of(self, subject: str) -> Refusal:
        """Return the refusal with the name of the table, statement or condition it is about."""
        return Refusal(f"{subject}: {self}")


class Refused(Exception):
    """Error of a function that translates, for a caller that falls back.

    Args:
        refusal: The reason.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


def refuse(reason: str, consequence: str = "") -> NoReturn:
    """Raise `Refused`. Arguments are as in `Refusal`."""
    raise Refused(Refusal(reason, consequence))


def tried(translate: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Refusal:
    """Return the result of a function that translates, or its refusal."""
    try:
        return translate(*args, **kwargs)
    except Refused as refused:
        return refused.refusal
