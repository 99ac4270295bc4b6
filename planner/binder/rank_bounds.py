"""Which ranks a condition keeps: `rn <= 3`, `NOT rn > 2`, `rn = 1 OR rn = 3`, `rn IN (1, 2)`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from sqlglot import exp

from planner.sql.build import is_number_literal

# A first and a last rank, both included; `inf` is no bound
_Range = tuple[float, float]


@dataclass(frozen=True)
class RankBounds:
    """The ranks that a condition keeps.

    Attributes:
        first: no rank before it is kept.
        last: no rank behind it is kept; None: there is no such rank.
        is_all: whether the condition says nothing but that.
    """

    first: int
    last: int | None
    is_all: bool


@dataclass(frozen=True)
class _Ranks:
    """A set of ranks, as ranges in order with gaps between them.

    Attributes:
        ranges: the ranges. Rows of other ranks are not kept.
        is_exact: whether all rows of these ranks are kept.
    """

    ranges: tuple[_Range, ...]
    is_exact: bool = True


_ANY = _Ranks(((1, inf),), is_exact=False)


def rank_bounds(condition: exp.Expr, name: str, source: str) -> RankBounds:
    """Read the bounds of a rank out of a condition, which may be about other columns too.

    Args:
        condition: the condition.
        name: the column of the rank, which is never NULL and begins at 1.
        source: the relation that it is a column of.

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
    """The ranks of rows that a condition may keep."""
    condition = condition.unnest()
    match condition:
        case exp.And() | exp.Or():
            left, right = (
                _ranks(side, name, source) for side in (condition.this, condition.expression)
            )
            join = _both if isinstance(condition, exp.And) else _either
            return _Ranks(join(left.ranges, right.ranges), left.is_exact and right.is_exact)
        case exp.Not():
            ranks = _ranks(condition.this, name, source)
            # of a condition on other columns, what is not kept may have any rank
            return _Ranks(_others(ranks.ranges)) if ranks.is_exact else _ANY
        case exp.Between(this=value, args={"low": low, "high": high}):
            least, most = _integer(low), _integer(high)
            if _is_rank(value, name, source) and least is not None and most is not None:
                return _within(least, most)
        case exp.In(this=value) if _is_rank(value, name, source) and condition.expressions:
            numbers = [n for each in condition.expressions if (n := _integer(each)) is not None]
            if len(numbers) == len(condition.expressions):
                ranges: tuple[_Range, ...] = ()
                for number in numbers:
                    ranges = _either(ranges, _within(number, number).ranges)
                return _Ranks(ranges)
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.EQ() | exp.NEQ():
            return _compared(condition, name, source)
    return _ANY


def _compared(condition: exp.Expr, name: str, source: str) -> _Ranks:
    left, right = condition.this.unnest(), condition.expression.unnest()
    kind: type[exp.Expr] = type(condition)
    if _is_rank(right, name, source):
        left, right = right, left
        kind = _MIRRORED.get(kind, kind)
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


# What a comparison is called when its sides change places
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


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


def _both(left: tuple[_Range, ...], right: tuple[_Range, ...]) -> tuple[_Range, ...]:
    met = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return tuple(sorted(each for each in met if each[0] <= each[1]))


def _either(left: tuple[_Range, ...], right: tuple[_Range, ...]) -> tuple[_Range, ...]:
    joined: list[_Range] = []
    for first, last in sorted([*left, *right]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return tuple(joined)


def _others(ranges: tuple[_Range, ...]) -> tuple[_Range, ...]:
    found: list[_Range] = []
    start: float = 1
    for first, last in ranges:
        if start < first:
            found.append((start, first - 1))
        start = last + 1
    return (*found, (start, inf)) if start < inf else tuple(found)
