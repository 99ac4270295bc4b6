"""Calls on times, however they are written: DATE_TRUNC, DATE_FORMAT and TIMESTAMPDIFF.

`planner.sql.wall_clocks` replaces calls on times without a zone by Spark SQL that keeps their wall
clocks. This module recognises that SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sqlglot import exp

from planner.scalars import calls
from planner.scalars.literals import has_fixed_offset, time_format_fields
from planner.sql.constants import constant_text
from planner.sql.nodes import KeywordCall
from planner.sql.wall_clocks import CLOCK_UNITS, DATE_UNITS, LENGTHS, date_format_in
from runtime.refusal import refuse
from runtime.shown_types import shown_type
from runtime.spec.expressions import Call, Constant, Expression
from runtime.windows.times import DAY_US

WALL_CLOCK = "timestamp_ntz"
_LENGTHS_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": DAY_US,
    "DD": DAY_US,
    "WEEK": 7 * DAY_US,
}
# Types that Spark's own functions convert on the clocks of the session
_ON_CLOCKS = ("timestamp", "date")
_ELAPSED = ("DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF")


class ClockKind(Enum):
    """What a call computes: a text, the start of a unit, or the units between two times."""

    FORMAT = auto()
    START = auto()
    ELAPSED = auto()


@dataclass(frozen=True)
class ClockCall:
    """A call on times.

    Attributes:
        kind: The function.
        times: Arguments.
        types: Types that all arguments may have.
        unit: Pattern of a text, or unit.
        is_nullable: Whether Spark says that the result may be NULL although no argument is.
    """

    kind: ClockKind
    times: tuple[exp.Expr, ...]
    types: tuple[str, ...]
    unit: str
    is_nullable: bool

    def result(self, types: Sequence[str]) -> str:
        """Return the type of a call with arguments of some types.

        Raises:
            Refused: Only Spark evaluates it.
        """
        (type_, *others) = dict.fromkeys(types)
        if others or type_ not in self.types:
            shown = " and ".join(map(shown_type, types))
            refuse(f"{self.unit} of {shown} is not supported by the scan")
        if self.kind is ClockKind.START:
            return type_
        return "string" if self.kind is ClockKind.FORMAT else "bigint"

    def call(self, times: Sequence[Expression], zone: str) -> Expression:
        """Return the call of kernels.

        Args:
            times: Arguments.
            zone: The session's time zone.

        Raises:
            Refused: Only Spark evaluates it.
        """
        type_ = self.result([time.type for time in times])
        if self.kind is ClockKind.FORMAT:
            if time_format_fields(self.unit) is None:
                refuse("DATE_FORMAT with this pattern is not supported by the scan")
            return Call("date_format", (times[0], Constant(self.unit, "string")), type_)
        is_instant = times[0].type == "timestamp"
        if (is_instant or self.types == _ON_CLOCKS) and not has_fixed_offset(zone):
            refuse(f"{self.unit} of times on clocks that change is not supported by the scan")
        if self.kind is ClockKind.ELAPSED:
            first, last = (_micros(time, zone) for time in times)
            between, width = Call("-", (last, first), "bigint"), _LENGTHS_US[self.unit]
            if width == 1:
                return between
            return Call("div", (between, Constant(width, "bigint")), "bigint")
        (time,) = times
        local = calls.on_wall_clock(time, zone) if is_instant else time
        start = _start_of(local, self.unit, zone)
        return Call("instant", (start, Constant(zone, "string")), type_) if is_instant else start


def clock_call(node: exp.Expr) -> ClockCall | None:
    """Return the call on times that a node is, or None."""
    match node:
        case exp.Case() if (formatted := date_format_in(node)) is not None:
            value, pattern = formatted.expressions
            text = constant_text(pattern)
            if text is None:
                return None
            return ClockCall(ClockKind.FORMAT, (value,), (WALL_CLOCK,), text, True)
        case exp.Sub():
            return _floored(node)
        case exp.IntDiv(this=exp.Paren(this=exp.Sub() as between), expression=exp.Var() as length):
            units = {f"INTERVAL {text}": unit for unit, text in LENGTHS.items()}
            unit, times = units.get(length.name), (between.expression, between.this)
            if unit is None:
                return None
            return ClockCall(ClockKind.ELAPSED, times, (WALL_CLOCK,), unit, True)
        case exp.Anonymous():
            return _by_name(node)
    return None


def _floored(node: exp.Sub) -> ClockCall | None:
    """Return `time - MAKE_DT_INTERVAL(0, 0, minute, second)` with the rest of a unit."""
    rest, value = node.expression, node.this.unnest()
    if not isinstance(rest, exp.Anonymous) or rest.name.upper() != "MAKE_DT_INTERVAL":
        return None
    if len(rest.expressions) != 4:
        return None
    *zeros, minute, second = rest.expressions
    if any(not isinstance(zero, exp.Literal) or zero.name != "0" for zero in zeros):
        return None
    step = None
    if isinstance(second, exp.Mod):
        second, step = second.this.unnest(), second.expression.name
    is_second = isinstance(second, KeywordCall) and second.name.upper() == "EXTRACT"
    if not is_second or second.expressions != [exp.Var(this="SECOND"), value]:
        return None
    has_minute = isinstance(minute, exp.Anonymous) and minute.name.upper() == "MINUTE"
    if has_minute and minute.expressions != [value]:
        return None
    if not has_minute and not (isinstance(minute, exp.Literal) and minute.name == "0"):
        return None
    units = {(True, None): "HOUR", (False, None): "MINUTE", (False, "1"): "SECOND"}
    units[False, "0.001"] = "MILLISECOND"
    unit = units.get((has_minute, step))
    if unit is None:
        return None
    # a remainder may be NULL
    return ClockCall(ClockKind.START, (value,), (WALL_CLOCK,), unit, step is not None)


def _by_name(node: exp.Anonymous) -> ClockCall | None:
    name, args = node.name.upper(), node.expressions
    if name in _ELAPSED and len(args) == 3 and args[0].name.upper() in LENGTHS:
        unit, times = args[0].name.upper(), (args[1], args[2])
        return ClockCall(ClockKind.ELAPSED, times, _ON_CLOCKS, unit, False)
    if name not in ("DATE_TRUNC", "TRUNC") or len(args) != 2:
        return None
    of_date = name == "TRUNC"
    value, unit_text = args if of_date else args[::-1]
    text = constant_text(unit_text)
    units = DATE_UNITS if of_date else (*DATE_UNITS, *CLOCK_UNITS)
    if text is None or text.upper() not in units:
        return None
    types = ("date",) if of_date else ("timestamp",)
    return ClockCall(ClockKind.START, (value,), types, text.upper(), True)


def _micros(time: Expression, zone: str) -> Expression:
    """Return microseconds since 1970."""
    local = calls.cast(time, WALL_CLOCK, zone) if time.type == "date" else time
    return Call("micros", (local,), "bigint")


def _start_of(time: Expression, unit: str, zone: str) -> Expression:
    """Return the start of a unit that contains a date or a time on a wall clock."""
    if unit in DATE_UNITS:
        text = Constant(DATE_UNITS[unit], "string")
        date = Call("start_of_date", (calls.cast(time, "date", zone), text), "date")
        return calls.cast(date, time.type, zone)
    width = _LENGTHS_US[unit]
    if width == 1:
        return time
    return Call("floor_time", (time, Constant(width, "bigint")), WALL_CLOCK)
