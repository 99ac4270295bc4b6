"""Random conditions and aggregates over columns, each with its meaning in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from tests.fuzz.choices import Choices
from tests.fuzz.values import Row, order, rank_order, same

Condition = tuple[str, Callable[[Row], bool | None]]
Aggregate = tuple[str, Callable[[list[Row]], Any]]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_NAMES = ("k", "g", "v", "d", "p")
# Order of LISTAGG
_BY_TIME = [("ts", False), ("k", False)]


def draw_condition(draw: Choices, depth: int = 1) -> Condition:
    """Draw a condition on a row."""
    kind = draw.pick(6)
    if kind == 1:
        name = draw.one_of(_NAMES)
        return f"{name} IS NULL", lambda row: row[name] is None
    if kind == 2:
        name = draw.one_of(_NAMES)
        return f"{name} IS NOT NULL", lambda row: row[name] is not None
    if depth and kind == 3:
        sql, test = draw_condition(draw, depth - 1)
        return f"NOT ({sql})", lambda row: _not(test(row))
    if depth and kind in (4, 5):
        (a, first), (b, second) = draw_condition(draw, depth - 1), draw_condition(draw, depth - 1)
        if kind == 4:
            return f"({a} AND {b})", lambda row: _and(first(row), second(row))
        return f"({a} OR {b})", lambda row: _not(_and(_not(first(row)), _not(second(row))))
    return _comparison(draw)


def draw_aggregate(draw: Choices) -> Aggregate:
    """Draw an aggregate, some with FILTER."""
    sql, compute = _call(draw)
    if draw.chance(25):
        condition, test = draw_condition(draw)
        return f"{sql} FILTER (WHERE {condition})", lambda rows: compute(
            [row for row in rows if test(row) is True]
        )
    return sql, compute


def _comparison(draw: Choices) -> Condition:
    name, literal, value = draw.one_of(
        [
            ("v", "3", 3),
            ("v", "-1", -1),
            ("g", "1", 1),
            ("d", "0e0", 0.0),
            ("d", "1.5e0", 1.5),
            ("d", "CAST('NaN' AS DOUBLE)", math.nan),
            ("k", "'b'", "b"),
            ("k", "''", ""),
            ("p", "1.10", Decimal("1.10")),
        ]
    )
    sign = draw.one_of(list(_COMPARE))
    compare, limit = _COMPARE[sign], order(value)
    return (
        f"{name} {sign} {literal}",
        lambda row: None if row[name] is None else compare(order(row[name]), limit),
    )


def _call(draw: Choices) -> Aggregate:
    name = draw.one_of(["k", "g", "v", "d", "p", "ts"])
    number = draw.one_of(["g", "v", "d", "p"])
    by = draw.one_of(["d", "g", "k", "p", "v", "ts"])
    spread = draw.one_of(["g", "v", "d"])
    sql, test = draw_condition(draw, 0)
    calls: list[Aggregate] = [
        ("COUNT(*)", len),
        (f"COUNT({name})", lambda rows: len(_values(rows, name))),
        (f"SUM({number})", lambda rows: _sum(_values(rows, number))),
        (f"AVG({number})", lambda rows: _average(_values(rows, number))),
        (f"MIN({name})", lambda rows: min(_values(rows, name), key=order, default=None)),
        (f"MAX({name})", lambda rows: max(_values(rows, name), key=order, default=None)),
        (f"COUNT(DISTINCT {name})", lambda rows: len(_distinct(rows, name))),
        ("SUM(DISTINCT v)", lambda rows: _sum(_distinct(rows, "v"))),
        ("COUNT(DISTINCT k, g)", lambda rows: len(
            {(row["k"], row["g"]) for row in rows if None not in (row["k"], row["g"])})),
        (f"COUNT_IF({sql})", lambda rows: sum(test(row) is True for row in rows)),
        (f"BOOL_OR({sql})", lambda rows: _any([test(row) for row in rows])),
        ("LISTAGG(k, '-')", lambda rows: _text(_values(rank_order(rows, _BY_TIME), "k"), "-")),
    ]  # fmt: skip
    of_columns: list[Aggregate] = [
        (f"MIN_BY({name}, {by})", lambda rows: _picked(rows, name, by, 0)),
        (f"MAX_BY({name}, {by})", lambda rows: _picked(rows, name, by, -1)),
        (f"VAR_POP({spread})", lambda rows: _variance(_values(rows, spread), 0)),
        (f"VARIANCE({spread})", lambda rows: _variance(_values(rows, spread), 1)),
        (f"STDDEV({spread})", lambda rows: _root(_variance(_values(rows, spread), 1))),
        (
            "LISTAGG(DISTINCT k)",
            lambda rows: _text(_distinct(rank_order(rows, _BY_TIME), "k"), ","),
        ),
    ]
    return draw.one_of([*calls, draw.one_of(of_columns)])


def _values(rows: list[Row], name: str) -> list[Any]:
    return [row[name] for row in rows if row[name] is not None]


def _distinct(rows: list[Row], name: str) -> list[Any]:
    return list({same(value): value for value in _values(rows, name)}.values())


def _text(texts: list[str], separator: str) -> str | None:
    return separator.join(texts) if texts else None


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _sum(values: list[Any]) -> Any:
    return sum(values[1:], values[0]) if values else None


def _average(values: list[Any]) -> Any:
    if not values:
        return None
    total = _sum(values)
    if isinstance(total, Decimal):
        # DECIMAL(14, 6), rounded half up
        return (total / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    return total / len(values)


def _picked(rows: list[Row], name: str, by: str, place: int) -> Any:
    """Return the value of the row at a place by another column; the value breaks ties."""
    given = [row for row in rows if row[by] is not None]
    return rank_order(given, [(by, False), (name, False)])[place][name] if given else None


def _variance(values: list[Any], less: int) -> float | None:
    """Return the variance of a population (`less` = 0) or of a sample (`less` = 1)."""
    if len(values) <= less:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(sum((value - mean) ** 2 for value in exact) / (len(exact) - less))


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def _any(values: Iterable[bool | None]) -> bool | None:
    given = [value for value in values if value is not None]
    return any(given) if given else None
