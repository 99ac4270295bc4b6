"""How rows are ranked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankOrder:
    """A column that ranks rows."""

    column: str
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class FirstRows:
    """Which rows of a window are wanted of those that are kept: the first ones.

    Attributes:
        by: the columns in which rows are ranked, beside their windows; key groups are theirs, so
            that rows that are ranked together are emitted together.
        order: what ranks them.
        function: ROW_NUMBER, RANK or DENSE_RANK.
        last: the last rank that is wanted, from 1.
    """

    by: tuple[str, ...]
    order: tuple[RankOrder, ...]
    function: str
    last: int
