"""Refusals of the portable lowering, with the part of the query that they are about."""

from __future__ import annotations

from typing import NoReturn

from planner.sql.nodes import TextSpan
from runtime.refusal import Refusal, Refused


class NotPortable(Refused):
    """Error for a part of a query that a target would compute differently, or not at all.

    Args:
        refusal: The reason.
        part: Text of the part as written, possibly respelled. Empty if unknown.
        hint: What would be right. Empty if nothing is certain to help.
        place: Part of the statement that contains it. None if unknown.
    """

    def __init__(
        self, refusal: Refusal, part: str = "", hint: str = "", place: TextSpan | None = None
    ) -> None:
        super().__init__(refusal)
        self.part = part
        self.hint = hint
        self.place = place


def refuse_part(reason: str, part: str = "", hint: str = "") -> NoReturn:
    """Raise `NotPortable`. Arguments are as in the class."""
    raise NotPortable(Refusal(reason), part, hint)
