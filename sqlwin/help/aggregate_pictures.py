"""What aggregates give for a few rows in two windows, drawn in characters.

The values are worked out by the definitions, so that a picture cannot say anything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_, or_, xor

from sqlwin.help.pictures import axis, bar, placed

# The rows of every picture: minute, x, y. Two windows of ten minutes have three and two of them.
ROWS = ((1, 5, 7), (4, 3, 9), (8, 5, 4), (12, 2, 8), (17, 6, 1))
_SIZE = 10
# `x > LEAST` is the condition of aggregates that take one
LEAST = 2
# The percentage of APPROX_PERCENTILE
SHARE = 0.95

Rows = Sequence[tuple[int, int, int]]


def _xs(rows: Rows) -> list[int]:
    return [x for _, x, _ in rows]


def _variance(rows: Rows, fewer: int) -> float:
    """Over n - `fewer` values, as in VAR_POP (0) and VAR_SAMP (1)."""
    xs = _xs(rows)
    mean = sum(xs) / len(xs)
    return sum((x - mean) ** 2 for x in xs) / (len(xs) - fewer)


def _by_y(pick: Callable[..., tuple[int, int, int]]) -> Callable[[Rows], int]:
    return lambda rows: pick(rows, key=lambda row: row[2])[1]


_FIRST: Callable[[Rows], int] = lambda rows: rows[0][1]  # noqa: E731  (one of a list of such)

_RESULTS: dict[str, Callable[[Rows], float | str]] = {
    "COUNT": len,
    "COUNT_IF": lambda rows: sum(x > LEAST for x in _xs(rows)),
    "APPROX_COUNT_DISTINCT": lambda rows: len(set(_xs(rows))),
    "APPROX_PERCENTILE": lambda rows: sorted(_xs(rows))[math.ceil(SHARE * len(rows)) - 1],
    "SUM": lambda rows: sum(_xs(rows)),
    "AVG": lambda rows: sum(_xs(rows)) / len(rows),
    "MIN": lambda rows: min(_xs(rows)),
    "MAX": lambda rows: max(_xs(rows)),
    "MIN_BY": _by_y(min),
    "MAX_BY": _by_y(max),
    "FIRST_VALUE": _FIRST,
    "LAST_VALUE": lambda rows: rows[-1][1],
    "LISTAGG": lambda rows: ",".join(map(str, _xs(rows))),
    "VAR_POP": lambda rows: _variance(rows, 0),
    "VAR_SAMP": lambda rows: _variance(rows, 1),
    "STDDEV_POP": lambda rows: math.sqrt(_variance(rows, 0)),
    "STDDEV_SAMP": lambda rows: math.sqrt(_variance(rows, 1)),
    "BOOL_AND": lambda rows: all(x > LEAST for x in _xs(rows)),
    "BOOL_OR": lambda rows: any(x > LEAST for x in _xs(rows)),
    "BIT_AND": lambda rows: reduce(and_, _xs(rows)),
    "BIT_OR": lambda rows: reduce(or_, _xs(rows)),
    "BIT_XOR": lambda rows: reduce(xor, _xs(rows)),
}

# Other names of the same
SAME = {
    "MEAN": "AVG",
    "FIRST": "FIRST_VALUE",
    "LAST": "LAST_VALUE",
    "ANY_VALUE": "FIRST_VALUE",
    "VARIANCE": "VAR_SAMP",
    "STDDEV": "STDDEV_SAMP",
    "STD": "STDDEV_SAMP",
    "STRING_AGG": "LISTAGG",
    "EVERY": "BOOL_AND",
    "SOME": "BOOL_OR",
    "ANY": "BOOL_OR",
    "PERCENTILE_APPROX": "APPROX_PERCENTILE",
}


def call(name: str) -> str:
    """The call that the picture of an aggregate shows."""
    kind = SAME.get(name, name)
    if kind == "COUNT":
        return "COUNT(*)"
    if kind in ("COUNT_IF", "BOOL_AND", "BOOL_OR"):
        return f"{name}(x > {LEAST})"
    if kind == "LISTAGG":
        return f"{name}(x, ',')"
    if kind == "APPROX_PERCENTILE":
        return f"{name}(x, {SHARE})"
    return f"{name}(x, y)" if kind.endswith("_BY") else f"{name}(x)"


def results(name: str) -> list[float | str]:
    """What an aggregate gives for each of the two windows."""
    kind = SAME.get(name, name)
    starts = (0, _SIZE)
    return [
        _RESULTS[kind]([row for row in ROWS if start <= row[0] < start + _SIZE]) for start in starts
    ]


def aggregate_picture(name: str) -> str:
    """The rows, the two windows, and what the aggregate gives for each.

    Example:
        >>> print(aggregate_picture("SUM"))
        x       5     3       5       2         6
        time  ┬─────────┬─────────┬─────────┬─────────┬
              :00       :05       :10       :15       :20
              [───────────────────)                     SUM(x) = 13
                                  [───────────────────) SUM(x) = 8
    """
    lines = [placed("x", [(minute, str(x)) for minute, x, _ in ROWS])]
    if call(name).endswith("(x, y)"):
        lines.append(placed("y", [(minute, str(y)) for minute, _, y in ROWS]))
    lines += axis(0, 2 * _SIZE, 5)
    for number, result in enumerate(results(name)):
        start = number * _SIZE
        text = f"{call(name)} = {_text(result)}"
        lines.append(placed("", [(start, bar(_SIZE)), (2 * _SIZE + 1, text)]))
    return "\n".join(lines)


def _text(result: float | str) -> str:
    if isinstance(result, str):
        return f"'{result}'"
    if isinstance(result, bool):
        return str(result).upper()
    return str(result) if isinstance(result, int) else f"{result:.2f}"
