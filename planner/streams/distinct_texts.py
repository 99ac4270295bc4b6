"""Texts of columns that differ wherever the columns do: casts, and formatted bounds of windows."""

from __future__ import annotations

import re
from collections.abc import Collection

from sqlglot import exp

from planner.sql.build import bare_column
from planner.sql.wall_clocks import date_format_in
from runtime.windows import Window

_DAY_US = 86_400_000_000
# Letters of a pattern that must all be there, and the length of the finest unit that they show
_UNITS = (
    ("yMd", _DAY_US),
    ("yMdH", _DAY_US // 24),
    ("yMdHm", _DAY_US // 1_440),
    ("yMdHms", 1_000_000),
)
# Types other than windows' bounds whose values have different texts. An instant in the hour that
# clocks repeat has the text of another one.
_TYPES = frozenset(
    {"tinyint", "smallint", "int", "bigint", "string", "boolean", "date", "timestamp_ntz"}
)


def column_of_text(
    expr: exp.Expr, window: Window, bounds: Collection[str], types: dict[str, str]
) -> str | None:
    """Return the column that a text distinguishes as well as its value, or None.

    Args:
        expr: Expression over the rows of windows.
        window: Windows of the rows.
        bounds: Lower-case names of their bounds.
        types: Types of the columns by lower-case name.
    """
    expr = expr.unnest()
    if isinstance(expr, exp.Cast) and expr.to.this == exp.DType.TEXT:
        name = (bare_column(expr.this) or "").lower()
        return name if name in bounds or types.get(name) in _TYPES else None
    call = date_format_in(expr)
    if call is not None and len(call.expressions) == 2:
        value, pattern = call.expressions
        name = (bare_column(value) or "").lower()
        unit_us = _unit_us(pattern.name) if pattern.is_string else None
        step_us = window.constant_stride_us if window.has_slices else None
        is_fine = unit_us is not None and step_us is not None and unit_us <= step_us
        return name if is_fine and name in bounds else None
    return None


def _unit_us(pattern: str) -> int | None:
    """Return the length of the finest unit that a pattern shows with all coarser ones, or None."""
    letters = set(re.sub(r"'[^']*'", "", pattern))
    years = re.search(r"[yu]+", pattern)
    if years is None or len(years[0]) == 2:  # two digits repeat after a century
        return None
    shown = {{"u": "y", "L": "M"}.get(letter, letter) for letter in letters}
    units = [unit_us for needed, unit_us in _UNITS if shown.issuperset(needed)]
    return min(units, default=None)
