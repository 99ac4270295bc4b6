"""Orders and limits of ranked rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankOrder:
    """Column that rows are ranked by."""

    column: str
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class FirstRows:
    """First rows of a window, by rank.

    Attributes:
        by: Columns within which rows are ranked, in addition to the windows. Key groups are formed
            by them, so that rows ranked together are emitted together.
        order: Sort order for the ranks.
        function: ROW_NUMBER, RANK or DENSE_RANK.
        last: Last rank to emit, from 1.
    """

    by: tuple[str, ...]
    order: tuple[RankOrder, ...]
    function: str
    last: int
