"""Nodes of joins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from sqlglot import exp

from planner.nodes.logical import AttachedWindow, Node
from planner.sql.nodes import TextSpan
from runtime.spec.filling import AsOfMatching


@dataclass(frozen=True)
class Join(Node):
    """A join of two sides.

    Attributes:
        left: Left side.
        right: Right side.
    """

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The left and the right side."""
        return (self.left, self.right)

    def with_inputs(self, *inputs: Node) -> Self:
        """Return the same join over other sides."""
        left, right = inputs
        return replace(self, left=left, right=right)


@dataclass(frozen=True)
class WindowJoin(Join):
    """A join of rows in the same window. Column names of the two sides are disjoint.

    Yields the left columns, then the right ones; LeftSemi and LeftAnti only the left ones.

    Attributes:
        join_type: Inner, LeftOuter, RightOuter, FullOuter, LeftSemi or LeftAnti.
        left_window: Windows of the left rows.
        right_window: Windows of the right rows, equal to the left ones. In a join within an
            interval, their ends are equal.
        window_keys: Pairs of equal window columns, left and right.
        keys: Pairs of names of other columns that must be equal, left and right.
        condition: Remaining conditions of ON over both sides' columns, or None.
        key_places: Source position of the comparison of each pair of `keys`.
    """

    join_type: str
    left_window: AttachedWindow
    right_window: AttachedWindow
    window_keys: tuple[tuple[str, str], ...]
    keys: tuple[tuple[str, str], ...]
    condition: exp.Expr | None
    key_places: tuple[TextSpan | None, ...] = field(
        default=(), compare=False, repr=False, kw_only=True
    )


@dataclass(frozen=True)
class AsOfJoin(Join):
    """Each left row with the right row that is nearest in time. Column names are disjoint.

    Yields the left columns, then the right ones. Both sides are bounded.

    Attributes:
        matching: Which right row is picked.
        join_type: Inner or LeftOuter.
    """

    matching: AsOfMatching
    join_type: str
