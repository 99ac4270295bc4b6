"""Random joins of windows, with their rows by definition: every pair of rows is tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz.choices import Choices
from tests.fuzz.expressions import draw_condition
from tests.fuzz.values import SCHEMA, Row, order
from tests.fuzz.windows import DrawnWindow, group

# Columns of a side that are rows; `n` is the count of a side that is groups
_BOUNDS = ("window_start", "window_end")
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
_HALVES = (
    "LEFT SEMI JOIN", "LEFT ANTI JOIN", "EXISTS", "NOT EXISTS", "IN", "NOT IN",
)  # fmt: skip


def draw_join(
    draw: Choices, window: DrawnWindow, time: str, copies: dict[str, list[Row]]
) -> tuple[str, list[Row]]:
    """Draw a join of two sides, and return its SQL and rows.

    Args:
        draw: Choices.
        window: Window of both sides.
        time: Time column.
        copies: Rows in windows of `t` and `u`.
    """
    is_grouped = window.kind == "SESSION" or draw.chance(50)
    sides = []
    for name in ("t", "u"):
        sql = window.call(name, time)
        rows = copies[name]
        if draw.chance(30) and window.kind != "SESSION":
            condition, test = draw_condition(draw)
            sql += f" WHERE {condition}"
            rows = [row for row in rows if test(row) is True]
        if is_grouped:
            rows = group(rows, ["k", "g", *_BOUNDS], [("", len)])
            rows = [{**row, "v": row.pop("a0")} for row in rows]
            sql = (
                f"SELECT k, g, window_start, window_end, COUNT(*) AS v FROM {sql} "
                "GROUP BY k, g, window_start, window_end"
            )
        else:
            sql = f"SELECT * FROM {sql}"
        sides.append((sql, rows))
    keys = draw.one_of([["k"], ["g"], ["k", "g"], []])
    condition, matches = _on(draw, keys)
    kind = draw.one_of([*_JOINS, *_HALVES])
    items = ["k", "g", "v", *([] if is_grouped else ["id"])]
    (left_sql, left), (right_sql, right) = sides
    if kind in _JOINS:
        names = [f"{side}.{name} AS {side}_{name}" for side in "lr" for name in (*items, *_BOUNDS)]
        sql = (
            f"SELECT {', '.join(names)} FROM ({left_sql}) AS l {kind} ({right_sql}) AS r "
            f"ON {condition}"
        )
        return sql, _joined(kind, left, right, matches, [*items, *_BOUNDS])
    names = [f"l.{name}" for name in (*items, *_BOUNDS)]
    sql = f"SELECT {', '.join(names)} FROM ({left_sql}) AS l "
    is_anti = "ANTI" in kind or "NOT" in kind
    if kind.endswith("IN") and "JOIN" not in kind:
        condition, matches = _on(draw, [])
        sql += f"WHERE l.k {kind} (SELECT r.k FROM ({right_sql}) AS r WHERE {condition})"
        rows = [row for row in left if _is_in(row, right, matches) is (not is_anti)]
    else:
        if "JOIN" in kind:
            sql += f"{kind} ({right_sql}) AS r ON {condition}"
        else:
            sql += f"WHERE {kind} (SELECT 1 FROM ({right_sql}) AS r WHERE {condition})"
        rows = [row for row in left if any(matches(row, r) for r in right) is not is_anti]
    return sql, [{name: row[name] for name in (*items, *_BOUNDS)} for row in rows]


def draw_pairs(
    draw: Choices, window: DrawnWindow, time: str, copies: dict[str, list[Row]]
) -> tuple[str, list[Row]]:
    """Draw an inner or left join that has the columns of a table, as the input of other clauses."""
    condition, matches = _on(draw, draw.one_of([["k"], ["g"], ["k", "g"]]))
    kind = draw.one_of(["JOIN", "LEFT JOIN"])
    of_left = ["id", "ts", "tz", "k", "g"]
    names = [f"{'l' if f.name in of_left else 'r'}.{f.name}" for f in SCHEMA]
    sql = (
        f"(SELECT {', '.join(names)}, l.window_start, l.window_end "
        f"FROM (SELECT * FROM {window.call('t', time)}) AS l {kind} "
        f"(SELECT * FROM {window.call('u', time)}) AS r ON {condition}) AS j"
    )
    rows = []
    for left in copies["t"]:
        pairs = [right for right in copies["u"] if matches(left, right)]
        for right in pairs or ([{}] if kind == "LEFT JOIN" else []):
            rows.append({**dict.fromkeys(SCHEMA.names), **right, **_only(left, of_left)})
    return sql, rows


def _only(row: Row, names: list[str]) -> Row:
    return {name: row[name] for name in (*names, *_BOUNDS)}


def _on(draw: Choices, keys: list[str]) -> tuple[str, Callable[[Row, Row], bool]]:
    """Draw a condition with equal windows and keys, and sometimes a comparison."""
    parts = [f"l.{name} = r.{name}" for name in (*_BOUNDS, *keys)]
    sign = draw.one_of([None, None, "<", ">=", "<>"])
    if sign is not None:
        parts.append(f"l.v {sign} r.v")

    def matches(left: Row, right: Row) -> bool:
        if any(left[name] != right[name] for name in _BOUNDS):
            return False
        if any(left[k] is None or right[k] is None or left[k] != right[k] for k in keys):
            return False
        if sign is None:
            return True
        a, b = left["v"], right["v"]
        if a is None or b is None:
            return False
        a, b = order(a), order(b)
        return {"<": a < b, ">=": a >= b, "<>": a != b}[sign]

    return " AND ".join(parts), matches


def _joined(
    kind: str,
    left: list[Row],
    right: list[Row],
    matches: Callable[[Row, Row], bool],
    names: list[str],
) -> list[Row]:
    def made(l_row: Row | None, r_row: Row | None) -> Row:
        sides: dict[str, Any] = {"l": l_row or {}, "r": r_row or {}}
        return {f"{side}_{name}": sides[side].get(name) for side in "lr" for name in names}

    rows = []
    is_matched = [False] * len(right)
    for row in left:
        pairs = [i for i, other in enumerate(right) if matches(row, other)]
        for i in pairs:
            is_matched[i] = True
            rows.append(made(row, right[i]))
        if not pairs and kind in ("LEFT JOIN", "FULL JOIN"):
            rows.append(made(row, None))
    if kind in ("RIGHT JOIN", "FULL JOIN"):
        rows += [made(None, row) for i, row in enumerate(right) if not is_matched[i]]
    return rows


def _is_in(row: Row, right: list[Row], matches: Callable[[Row, Row], bool]) -> bool | None:
    """Return whether `k` is in the rows of its window: None if that is unknown."""
    values = [other["k"] for other in right if matches(row, other)]
    if not values:
        return False
    if row["k"] is None:
        return None
    if row["k"] in values:
        return True
    return None if None in values else False
