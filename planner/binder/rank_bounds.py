"""Bounds of a rank in conditions: `rn <= 3`, `NOT rn > 2`, `rn = 1 OR rn = 3`, `rn IN (1, 2)`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from sqlglot import exp

from planner.sql.build import MIRRORED, is_number_literal

# First and last rank, both inclusive; `inf` means unbounded
_Range = tuple[float, float]


@dataclass(frozen=True)
class RankBounds:
    """Range of ranks that a condition keeps.

    Attributes:
        first: Lowest rank that may be kept.
        last: Highest rank that may be kept. None if unbounded.
        is_all: Whether the bounds are equivalent to the condition.
    """

    first: int
    last: int | None
    is_all: bool


@dataclass(frozen=True)
class _Ranks:
    """A set of ranks, as ordered ranges with gaps between them.

    Attributes:
        ranges: The ranges. Rows with other ranks are dropped.
        is_exact: Whether all rows with these ranks are kept.
    """

    ranges: tuple[_Range, ...]
    is_exact: bool = True


_ANY = _Ranks(((1, inf),), is_exact=False)


def rank_bounds(condition: exp.Expr, name: str, source: str) -> RankBounds:
    """Extract the bounds of a rank from a condition, which may read other columns too.

    Args:
        condition: The condition.
        name: Name of the rank column, which is never NULL and starts at 1.
        source: Name of the rank column's relation.

    Example:
        >>> from sqlglot import parse_one
        >>> rank_bounds(parse_one("rn < 2 OR rn = 3 AND v > 0"), "rn", "t")
        RankBounds(first=1, last=3, is_all=False)
        >>> rank_bounds(parse_one("NOT rn > 2"), "rn", "t")
        RankBounds(first=1, last=2, is_all=True)
    """
    ranks = _ranks(condition, name.lower(), source.lower())
    if not ranks.ranges:
        return RankBounds(1, 0, is_all=True)
    first, last = ranks.ranges[0][0], ranks.ranges[-1][1]
    is_all = ranks.is_exact and len(ranks.ranges) == 1
    return RankBounds(int(first), None if last == inf else int(last), is_all)


def _ranks(condition: exp.Expr, name: str, source: str) -> _Ranks:
    """Return the ranks of rows that a condition may keep."""
    condition = condition.unnest()
    match condition:
        case exp.And() | exp.Or():
            left, right = (
                _ranks(side, name, source) for side in (condition.this, condition.expression)
            )
            join = _intersection if isinstance(condition, exp.And) else _union
            return _Ranks(join(left.ranges, right.ranges), left.is_exact and right.is_exact)
        case exp.Not():
            ranks = _ranks(condition.this, name, source)
            # The rows that a condition on other columns drops may have any rank.
            return _Ranks(_others(ranks.ranges)) if ranks.is_exact else _ANY
        case exp.Between(this=value, args={"low": low, "high": high}):
            least, most = _integer(low), _integer(high)
            if _is_rank(value, name, source) and least is not None and most is not None:
                return _within(least, most)
        case exp.In(this=value) if _is_rank(value, name, source) and condition.expressions:
            numbers = [n for item in condition.expressions if (n := _integer(item)) is not None]
            if len(numbers) == len(condition.expressions):
                ranges: tuple[_Range, ...] = ()
                for number in numbers:
                    ranges = _union(ranges, _within(number, number).ranges)
                return _Ranks(ranges)
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.EQ() | exp.NEQ():
            return _compare(condition, name, source)
    return _ANY


def _compare(condition: exp.Expr, name: str, source: str) -> _Ranks:
    left, right = condition.this.unnest(), condition.expression.unnest()
    kind: type[exp.Expr] = type(condition)
    if _is_rank(right, name, source):
        left, right = right, left
        kind = MIRRORED.get(kind, kind)
    number = _integer(right)
    if number is None or not _is_rank(left, name, source):
        return _ANY
    ranges: dict[type[exp.Expr], _Ranks] = {
        exp.LT: _within(1, number - 1),
        exp.LTE: _within(1, number),
        exp.GT: _within(number + 1, inf),
        exp.GTE: _within(number, inf),
        exp.EQ: _within(number, number),
        exp.NEQ: _Ranks(_others(_within(number, number).ranges)),
    }
    return ranges[kind]


def _is_rank(expr: exp.Expr, name: str, source: str) -> bool:
    expr = expr.unnest()
    return (
        isinstance(expr, exp.Column)
        and expr.name.lower() == name
        and expr.table.lower() in ("", source)
    )


def _integer(expr: exp.Expr) -> int | None:
    expr = expr.unnest()
    return int(expr.name) if is_number_literal(expr) and expr.name.isdigit() else None


# -- sets of ranks ---------------------------------------------------------------------------------


def _within(first: float, last: float) -> _Ranks:
    first = max(first, 1)
    return _Ranks(((first, last),) if first <= last else ())


def _intersection(left: tuple[_Range, ...], right: tuple[_Range, ...]) -> tuple[_Range, ...]:
    met = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return tuple(sorted(range_ for range_ in met if range_[0] <= range_[1]))


def _union(left: tuple[_Range, ...], right: tuple[_Range, ...]) -> tuple[_Range, ...]:
    merged: list[_Range] = []
    for first, last in sorted([*left, *right]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return tuple(merged)


def _others(ranges: tuple[_Range, ...]) -> tuple[_Range, ...]:
    gaps: list[_Range] = []
    start: float = 1
    for first, last in ranges:
        if start < first:
            gaps.append((start, first - 1))
        start = last + 1
    return (*gaps, (start, inf)) if start < inf else tuple(gaps)
