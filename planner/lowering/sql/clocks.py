"""Instants on the clocks of a time zone, starts of units of time, and texts of times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import groupby
from typing import NoReturn

from sqlglot import exp

from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.target import ExpressionWriter, Target
from planner.lowering.sql.text import FIRST_DAY, binary, call, case, cast, number, operand
from planner.scalars.literals import time_format_fields, time_zone
from runtime.spec.expressions import Call, Expression

# Widths of units of DATE_TRUNC, in microseconds
_UNITS = {1_000: "milliseconds", 1_000_000: "second", 60_000_000: "minute", 3_600_000_000: "hour"}


def local_us(target: Target, time: exp.Expr, type_: str, zone: str, part: str) -> exp.Expr:
    """Return the microseconds since 1970 that clocks show at a time.

    Args:
        target: Engine.
        time: Time on the target.
        type_: `timestamp_ntz`, which clocks show already, or `timestamp`.
        zone: Time zone of the clocks.
        part: Part of the query that depends on them.

    Raises:
        NotPortable: The target may have other clocks.
    """
    if type_ == "timestamp_ntz":
        return target.to_us(time, type_)
    offset_us = _fixed_offset_us(zone)
    if offset_us is not None:
        return _plus(target.to_us(time, type_), offset_us)
    there = target.wall_clock_us(time, zone) if time_zone(zone) is not None else None
    if there is None:
        _refuse(target, zone, part)
    return _within_rules(target, time, there, "bigint", zone)


def instant(
    target: Target,
    time_us: exp.Expr,
    zone: str,
    part: str,
    offsets: tuple[exp.Expr, exp.Expr] | None = None,
) -> exp.Expr:
    """Return the instant at which clocks show microseconds since 1970.

    Args:
        target: Engine.
        time_us: Microseconds.
        zone: Time zone of the clocks.
        part: Part of the query that depends on them.
        offsets: Columns with the results of `Target.offsets_around`, if the text has them.

    Raises:
        NotPortable: The target may have other clocks.
    """
    offset_us = _fixed_offset_us(zone)
    if offset_us is not None:
        return target.from_us(_plus(time_us, -offset_us), "timestamp")
    there = target.instant(time_us, zone, offsets) if time_zone(zone) is not None else None
    if there is None:
        _refuse(target, zone, part)
    return _within_rules(target, time_us, there, "timestamp", zone)


def floor_time(target: Target, time: exp.Expr, type_: str, width_us: int) -> exp.Expr:
    """Return a time without the rest of a number of microseconds since 1970."""
    if target.has_date_trunc and width_us in _UNITS:
        return call("DATE_TRUNC", _UNITS[width_us], time)
    time_us = target.to_us(time, type_)
    return target.from_us(binary(exp.Sub, time_us, target.floor_mod(time_us, width_us)), type_)


def start_of_date(target: Target, date: exp.Expr, unit: str) -> exp.Expr | None:
    """Return the first day of the WEEK (from Monday), MM, QUARTER or YEAR that contains a date.

    None if the engine cannot compute it.
    """
    if target.name == "spark":
        return call("TRUNC", date, unit)
    if target.has_date_trunc:
        name = "month" if unit == "MM" else unit.lower()
        return cast(call("DATE_TRUNC", name, cast(date, "timestamp_ntz")), "date")
    if unit == "WEEK":
        day = target.month_function("UNIX_DATE", [date])
        if day is None:
            return None
        # 1970 began on a Thursday
        rest = target.floor_mod(binary(exp.Add, day, 3), 7)
        return target.month_function("DATE_FROM_UNIX_DATE", [binary(exp.Sub, day, rest)])
    year, month = (target.month_function(name, [date]) for name in ("YEAR", "MONTH"))
    if year is None or month is None:
        return None
    months = binary(exp.Mul, binary(exp.Sub, year, 1970), 12)
    if unit != "YEAR":
        before = binary(exp.Sub, month, 1)
        if unit == "QUARTER":
            before = binary(exp.Sub, before, binary(exp.Mod, before, 3))
        months = binary(exp.Add, months, before)
    return target.month_function("ADD_MONTHS", [FIRST_DAY, months])


def is_fixed(zone: str) -> bool:
    """Return whether the clocks of a zone never change."""
    return _fixed_offset_us(zone) is not None


def _fixed_offset_us(zone: str) -> int | None:
    rules = time_zone(zone)
    if not isinstance(rules, timezone):
        return None
    return rules.utcoffset(None) // timedelta(microseconds=1)


def _within_rules(
    target: Target, time: exp.Expr, there: exp.Expr, type_: str, zone: str
) -> exp.Expr:
    """Return a time on other clocks, or fail where the target lacks the rules of the clocks.

    Args:
        target: Engine.
        time: The time that is converted: an instant, or microseconds if `there` is an instant.
        there: Its conversion.
        type_: Type of `there`.
        zone: Time zone of the clocks.
    """
    year = target.first_year_without_rules
    if year is None or not _changes_in(zone, year):
        return there
    first = datetime(year, 1, 1, tzinfo=UTC)
    if type_ == "timestamp":
        least: exp.Expr = number(int(first.timestamp()) * 1_000_000)
    else:
        least = cast(exp.Literal.string(first.isoformat(" ")), "timestamp")
    message = f"{target.title} has no summer time in {zone} from {year} on: "
    # a constant that fails would fail in queries without such times
    failure = cast(call("CONCAT", message, cast(time, "string")), type_)
    return case([(binary(exp.GTE, time, least), failure)], there)


def _changes_in(zone: str, year: int) -> bool:
    """Return whether the clocks of a zone change within a year."""
    rules = time_zone(zone)
    days = (datetime(year, month, 1, tzinfo=UTC) for month in range(1, 13))
    return len({day.astimezone(rules).utcoffset() for day in days}) > 1


def _plus(time_us: exp.Expr, by_us: int) -> exp.Expr:
    return binary(exp.Add if by_us > 0 else exp.Sub, time_us, abs(by_us)) if by_us else time_us


def _refuse(target: Target, zone: str, part: str) -> NoReturn:
    refuse_part(
        f"TIMESTAMP_LTZ on the clocks of {zone}, which {target.title} may know differently",
        part,
        "SET 'table.local-time-zone' = 'UTC', or use a TIMESTAMP column",
    )


def format_time(rows: ExpressionWriter, target: Target, time: Expression, pattern: str) -> exp.Expr:
    """Return a TIMESTAMP_NTZ as text.

    Args:
        rows: Writer of the time.
        target: Engine.
        time: Time.
        pattern: Pattern of `time_format_fields`.
    """
    pieces: list[exp.Expr] = []
    for is_letter, group in groupby(time_format_fields(pattern) or (), lambda f: f in _WIDTHS):
        if is_letter:
            pieces += [_field_text(rows, target, time, name) for name in group]
        else:
            pieces.append(exp.Literal.string("".join(text.replace("'", "") for text in group)))
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = exp.DPipe(this=whole, expression=piece)
    return whole


# Digits of the fields of a pattern
_WIDTHS = {"yyyy": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2, "ss": 2, "SSS": 3, "SSSSSS": 6}
_PARTS = {"yyyy": "year", "MM": "month", "dd": "day", "HH": "hour", "mm": "minute", "ss": "second"}


def _field_text(rows: ExpressionWriter, target: Target, time: Expression, name: str) -> exp.Expr:
    width = _WIDTHS[name]
    if name.startswith("S"):
        micros = target.floor_mod(target.to_us(rows.write(time), time.type), 1_000_000)
        digits = _padded(micros, 6)
        return digits if width == 6 else call("SUBSTRING", digits, 1, width)
    part = rows.write(Call(_PARTS[name], (time,), "int"))
    if name != "yyyy":
        return _padded(part, width)
    # years have a sign if they are negative or beyond 9999
    digits = _padded(exp.Paren(this=exp.Neg(this=operand(part))), width)
    negative = exp.DPipe(this=exp.Literal.string("-"), expression=digits)
    late = exp.DPipe(this=exp.Literal.string("+"), expression=cast(part, "string"))
    branches = [(binary(exp.LT, part, 0), negative), (binary(exp.GT, part, 9_999), late)]
    return case(branches, _padded(part, width))


def _padded(value: exp.Expr, width: int) -> exp.Expr:
    return call("LPAD", cast(value, "string"), width, "0")
