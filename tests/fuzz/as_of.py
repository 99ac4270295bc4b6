"""Random as-of joins, with their rows by definition: every pair of rows is tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.fuzz.choices import Choices
from tests.fuzz.values import Row, Tables, order
from tests.fuzz.windows import DrawnWindow, group, interval

# Comparison of the left with the right time: whether the last row before is picked
_SIGNS = {">=": True, ">": True, "<=": False, "<": False}
_BACK = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}


def draw_as_of(
    draw: Choices, tables: Tables, windows: DrawnWindow, time: str, copies: list[Row]
) -> tuple[str, list[Row]]:
    """Draw an as-of join of `t` with `u`, or with windows of `u`; return its SQL and rows.

    Rows that a join may pick instead of each other are equal in the columns of the result.

    Args:
        draw: Choices.
        tables: Rows of `t` and `u`.
        windows: Windows of `u`.
        time: Time column.
        copies: Rows of `u` in its windows.
    """
    keys = draw.sample(["k", "g", "d"], draw.one_of([0, 1, 1, 2]))
    # the columns ts and tz are equal
    at, right_sql, right, shown = time, "u", tables["u"], [*keys, "ts"]
    if time == "ts" and draw.chance(50):
        by = [*keys, "window_start", "window_end"]
        right = group(copies, by, [("", len)])
        right_sql = (
            f"(SELECT {', '.join(by)}, COUNT(*) AS a0 FROM {windows.call('u', time)} "
            f"GROUP BY {', '.join(by)})"
        )
        at, shown = "window_end", [*keys, "window_end", "a0"]
    elif draw.chance(40):
        time = at = draw.one_of(["d", "v", "p", "k"])
        shown = list(dict.fromkeys([*keys, at]))
    sign = draw.one_of(list(_SIGNS))
    limit = None
    if time in ("ts", "tz") and draw.chance(40):
        limit = windows.length_us // draw.one_of([1, 2, 7]) * (1 if _SIGNS[sign] else -1)
    back = draw.one_of([">", ">="] if _SIGNS[sign] else ["<", "<="])
    is_outer = draw.chance(50)
    parts = [f"l.{key} = r.{key}" for key in keys]
    comparison = f"l.{time} {sign} r.{at}"
    if draw.chance(30):
        comparison = f"r.{at} {_BACK[sign]} l.{time}"
    if limit is not None:
        parts.append(f"r.{at} {back} l.{time} - {interval(limit)}")
    right_sql += " AS r"
    if draw.chance(30):
        direction = "DESC" if _SIGNS[sign] else "ASC"
        where = " AND ".join([comparison, *parts])
        join = (
            f"{'LEFT' if is_outer else ''} JOIN LATERAL (SELECT r.* FROM {right_sql} WHERE {where} "
            f"ORDER BY r.{at} {direction} LIMIT 1) AS r ON TRUE"
        )
    else:
        kind = "ASOF LEFT JOIN" if is_outer else "ASOF INNER JOIN"
        join = f"{kind} {right_sql} ON {' AND '.join([comparison, *parts])}"
    items = ["l.id", "l.k", "l.ts", *(f"r.{name} AS r_{name}" for name in shown)]
    second = _draw_second(draw, tables) if draw.chance(40) else None
    joins = [join]
    if second is not None:
        items += [f"q.{name} AS q_{name}" for name in second.shown]
        joins.insert(0 if second.sign == "=" and draw.chance(50) else 1, second.sql)
    sql = f"SELECT {', '.join(items)} FROM t AS l {' '.join(joins)}"
    rows = []
    for row in tables["t"]:
        picked = _nearest(row, right, keys, (time, sign, at))
        if picked is not None and limit is not None:
            picked = picked if _holds(picked[at], back, row[time] - limit) else None
        if picked is not None or is_outer:
            of_right = {f"r_{name}": (picked or {}).get(name) for name in shown}
            rows += _with_second(row, of_right, second)
    if draw.chance(25):
        return f"{sql} WHERE r.{shown[-1]} IS NULL OR l.id > 3", [
            row for row in rows if row[f"r_{shown[-1]}"] is None or row["id"] > 3
        ]
    return sql, rows


@dataclass(frozen=True)
class _Second:
    """A second join of `t` with a table.

    Attributes:
        sql: Join.
        right: Rows of the table.
        keys: Columns that are equal.
        sign: Comparison of the left with the right time; `=` for a join with all rows of the keys.
        is_outer: Whether it keeps rows without a match.
    """

    sql: str
    right: list[Row]
    keys: list[str]
    sign: str
    is_outer: bool

    @property
    def shown(self) -> list[str]:
        """Columns of the right side in the result."""
        return [*self.keys, "ts"]


def _draw_second(draw: Choices, tables: Tables) -> _Second:
    if draw.chance(40):
        name, keys = draw.one_of(["u", "t"]), draw.sample(["k", "g", "d"], 1 + draw.pick(2))
        is_outer = draw.chance(50)
        conditions = " AND ".join(f"l.{key} = q.{key}" for key in keys)
        kind = "LEFT JOIN" if is_outer else "JOIN"
        sql = f"{kind} {name} AS q ON {conditions}"
        return _Second(sql, tables[name], keys, "=", is_outer)
    name, keys = draw.one_of(["u", "t"]), draw.sample(["k", "g"], draw.pick(3))
    sign, is_outer = draw.one_of(list(_SIGNS)), draw.chance(50)
    conditions = " AND ".join([*(f"l.{key} = q.{key}" for key in keys), f"l.ts {sign} q.ts"])
    kind = "ASOF LEFT JOIN" if is_outer else "ASOF JOIN"
    return _Second(f"{kind} {name} AS q ON {conditions}", tables[name], keys, sign, is_outer)


def _with_second(row: Row, of_right: Row, second: _Second | None) -> list[Row]:
    """Return a joined row with the row of the second join, if there is one."""
    joined = {name: row[name] for name in ("id", "k", "ts")} | of_right
    if second is None:
        return [joined]
    if second.sign == "=":
        pairs = [r for r in second.right if all(_holds(row[k], "=", r[k]) for k in second.keys)]
    else:
        picked = _nearest(row, second.right, second.keys, ("ts", second.sign, "ts"))
        pairs = [] if picked is None else [picked]
    return [
        joined | {f"q_{name}": pair.get(name) for name in second.shown}
        for pair in pairs or ([{}] if second.is_outer else [])
    ]


def _nearest(
    row: Row, right: list[Row], keys: list[str], times: tuple[str, str, str]
) -> Row | None:
    """Return a row of the right side that is nearest in time."""
    time, sign, at = times
    matches = [
        other
        for other in right
        if all(_holds(row[key], "=", other[key]) for key in keys)
        and _holds(row[time], sign, other[at])
    ]
    if not matches:
        return None
    pick = max if _SIGNS[sign] else min
    return pick(matches, key=lambda other: order(other[at]))


def _holds(left: Any, sign: str, right: Any) -> bool:
    """Return whether a comparison of values is true, not NULL."""
    if left is None or right is None:
        return False
    left, right = order(left), order(right)
    if left == right:
        return "=" in sign
    return (">" if left > right else "<") in sign
