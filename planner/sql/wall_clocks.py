"""Rewriting of calls on times without a zone, which Spark would convert to instants.

Spark's time functions take instants. Spark converts a TIMESTAMP without a zone with the session's
time zone, which moves wall-clock times skipped by a clock change by an hour. This module rewrites
such calls so that the wall-clock time is preserved, as in Flink and the SQL standard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from planner.sql.build import INTEGERS, alias, cast_as, function_call, literal, named_struct, to_sql
from planner.sql.constants import constant_text
from planner.sql.nodes import WRITTEN, KeywordCall
from planner.sql.parts import own_clauses, own_nodes

# Function that returns Spark's type of an expression, or None if unknown
TypeOf = Callable[[exp.Expr], str | None]

WALL_CLOCK = "timestamp_ntz"
# Types of values without a zone that represent a date and time
_WITHOUT_ZONE = ("string", "date", WALL_CLOCK, "void")
# Pattern letters for a zone or an offset
_ZONE_LETTERS = frozenset("VzOXxZ")

# Units of DATE_TRUNC that are dates, as in TRUNC
DATE_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    **dict.fromkeys(("MONTH", "MM", "MON"), "MM"),
    "QUARTER": "QUARTER",
    "WEEK": "WEEK",
}
CLOCK_UNITS = ("DAY", "DD", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
# Precisions of TO_TIMESTAMP_LTZ(number, precision)
EPOCH_PRECISIONS = (0, 3, 6, 9)
_READS_ZONE = (
    "TO_TIMESTAMP with a pattern that is not constant cannot read a zone: use TO_TIMESTAMP_LTZ"
)
_PRECISION = "the precision of TO_TIMESTAMP_LTZ must be 0, 3, 6 or 9"
# Marks a CASE that formats a time
_FORMATS = "formats"
_SKIPPED = (
    "DATE_FORMAT with a pattern that is not constant cannot format a time that the clocks of the "
    "session skip"
)
# Units of TIMESTAMPDIFF with a fixed length
LENGTHS = {
    "MICROSECOND": "'0.000001' SECOND",
    "MILLISECOND": "'0.001' SECOND",
    "SECOND": "'1' SECOND",
    "MINUTE": "'1' MINUTE",
    "HOUR": "'1' HOUR",
    "DAY": "'1' DAY",
    "WEEK": "'7' DAY",
}


def keep_wall_clocks(tree: exp.Expr, type_of: TypeOf) -> bool:
    """Rewrite calls on times without a zone, in place; return whether there were any.

    Handles TO_TIMESTAMP of a text, DATE_TRUNC, DATE_FORMAT and TIMESTAMPDIFF, TO_TIMESTAMP_LTZ of a
    number whose precision is not constant, and EXTRACT of the field EPOCH. Other calls on instants
    and numbers are left to Spark.

    A unit or pattern means the same however it is written: as a literal, a constant expression or
    a column. A pattern that is not constant fails for rows whose result would need another type, or
    a clock that does not exist.

    Args:
        tree: A SELECT, whose subqueries are skipped, or an expression with a parent.
        type_of: Function that returns Spark's type of an argument.
    """
    has_any = False
    type_of = _type_of_own_calls(type_of)
    calls = list(_calls(tree))
    names = [to_sql(call) for call in calls]
    for call, name in zip(reversed(calls), reversed(names), strict=True):  # inner calls first
        new = _REWRITES[call.name.upper()](call, type_of)
        if new is None:
            continue
        has_any = True
        new.meta.update({**call.meta, WRITTEN: name})
        if isinstance(call.parent, exp.Select) and call.arg_key == "expressions":
            new = alias(new, name)
        call.replace(new)
    return has_any


def _type_of_own_calls(type_of: TypeOf) -> TypeOf:
    """Extend `type_of` by the types of the calls that this module creates."""

    def type_or_none(expr: exp.Expr) -> str | None:
        is_call = isinstance(expr, exp.Anonymous) and expr.name.upper() == "TO_TIMESTAMP_NTZ"
        return WALL_CLOCK if is_call else type_of(expr)

    return type_or_none


def _calls(tree: exp.Expr) -> Iterator[exp.Expr]:
    for node in own_nodes(own_clauses(tree) if isinstance(tree, exp.Query) else [tree]):
        if isinstance(node, exp.Anonymous | KeywordCall) and node.name.upper() in _REWRITES:
            yield node


def _to_timestamp(call: exp.Anonymous, type_of: TypeOf) -> exp.Expr | None:
    args = call.expressions
    if len(args) == 2:
        # a pattern with a zone reads an instant
        pattern = constant_text(args[1])
        if pattern is not None and _has_zone(pattern):
            return None
        local = function_call("TO_TIMESTAMP_NTZ", *args)
        if pattern is not None:
            return local
        letters = function_call("REGEXP_REPLACE", args[1], literal("'[^']*'"), literal(""))
        zone = literal(f"[{''.join(sorted(_ZONE_LETTERS))}]")
        has_zone = function_call("REGEXP_LIKE", letters, zone)
        refused = exp.If(this=has_zone, true=function_call("RAISE_ERROR", literal(_READS_ZONE)))
        return exp.Case(ifs=[refused], default=local)
    if len(args) != 1:
        return None
    type_ = "string" if constant_text(args[0]) is not None else type_of(args[0])
    is_local = type_ in _WITHOUT_ZONE or type_ is None
    return function_call("TO_TIMESTAMP_NTZ", *args) if is_local else None


def _has_zone(pattern: str) -> bool:
    """Return whether a time pattern reads a zone outside quoted text."""
    return bool(_ZONE_LETTERS.intersection("".join(pattern.split("'")[::2])))


def _date_trunc(call: exp.Anonymous, type_of: TypeOf) -> exp.Expr | None:
    if len(call.expressions) != 2:
        return None
    unit, value = call.expressions
    local = _to_wall_clock(value, type_of(value))
    if local is None:
        return None
    text = constant_text(unit)
    if text is not None:
        return _truncated(local, text.upper())
    branches = [
        exp.If(this=literal(name), true=_truncated(local, name))
        for name in (*DATE_UNITS, *CLOCK_UNITS)
    ]
    return exp.Case(this=function_call("UPPER", unit), ifs=branches)


def _truncated(local: exp.Expr, unit: str) -> exp.Expr:
    """Return a TIMESTAMP without a zone at the start of its unit; NULL for an unknown unit."""
    if unit in CLOCK_UNITS:
        return floor_clock(local, unit)
    if unit not in DATE_UNITS:
        return cast_as(exp.Null(), "TIMESTAMP_NTZ")
    date = cast_as(local.copy(), "date")
    return midnight_of(function_call("TRUNC", date, literal(DATE_UNITS[unit])))


def date_format_in(expr: exp.Expr) -> exp.Anonymous | None:
    """Return the DATE_FORMAT that an expression is, as written or as rewritten, or None."""
    if _FORMATS in expr.meta:
        expr = expr.args["ifs"][0].args["true"]
    is_call = isinstance(expr, exp.Anonymous) and expr.name.upper() == "DATE_FORMAT"
    return expr if is_call and isinstance(expr, exp.Anonymous) else None


def _date_format(call: exp.Anonymous, type_of: TypeOf) -> exp.Expr | None:
    if len(call.expressions) != 2:
        return None
    value, pattern = call.expressions
    text = constant_text(pattern)
    if text is not None and _has_zone(text):
        return None
    local = _to_wall_clock(value, type_of(value))
    if local is None:
        return None
    # Only Spark's JSON and CSV functions format a wall-clock time unchanged. They are slow and only
    # needed for times that a clock change skips.
    instant = cast_as(local.copy(), "TIMESTAMP_LTZ")
    again = cast_as(instant, "TIMESTAMP_NTZ")
    if text is None:
        skipped = function_call("RAISE_ERROR", literal(_SKIPPED))
    else:
        options = function_call("MAP", literal("timestampNTZFormat"), literal(text))
        json = function_call("TO_JSON", named_struct(t=local), options)
        skipped = function_call("GET_JSON_OBJECT", json, literal("$.t"))
    formatted = exp.Case(
        ifs=[
            exp.If(
                this=exp.EQ(this=again, expression=exp.Paren(this=local.copy())),
                true=function_call(call.this, local, pattern),
            )
        ],
        default=skipped,
    )
    formatted.meta[_FORMATS] = True
    return formatted


def _to_timestamp_ltz(call: exp.Anonymous, type_of: TypeOf) -> exp.Expr | None:
    """Convert a number with a precision that is not constant."""
    if len(call.expressions) != 2 or type_of(call.expressions[1]) not in INTEGERS:
        return None
    number, precision = call.expressions
    branches = [
        exp.If(this=literal(digits), true=from_epoch(number, digits)) for digits in EPOCH_PRECISIONS
    ]
    invalid = function_call("RAISE_ERROR", literal(_PRECISION))
    return exp.Case(this=precision.copy(), ifs=branches, default=invalid)


def from_epoch(number: exp.Expr, precision: int) -> exp.Expr:
    """Return the instant of a number of units since 1970, with 0, 3, 6 or 9 digits of seconds."""
    if precision == 9:
        us = exp.IntDiv(this=exp.Paren(this=number.copy()), expression=literal(1000))
        return function_call("TIMESTAMP_MICROS", us)
    unit = {0: "SECONDS", 3: "MILLIS", 6: "MICROS"}[precision]
    return function_call(f"TIMESTAMP_{unit}", number)


def _timestampdiff(call: exp.Anonymous, type_of: TypeOf) -> exp.Expr | None:
    if len(call.expressions) != 3 or call.expressions[0].name.upper() not in LENGTHS:
        return None
    unit, *times = call.expressions
    types = [type_of(time) for time in times]
    if WALL_CLOCK not in types:
        return None
    first, last = (_to_wall_clock(time, type_) for time, type_ in zip(times, types, strict=True))
    if first is None or last is None:
        return None
    between = exp.Sub(this=exp.Paren(this=last), expression=exp.Paren(this=first))
    length = exp.Var(this=f"INTERVAL {LENGTHS[unit.name.upper()]}")
    return exp.Paren(this=exp.IntDiv(this=exp.Paren(this=between), expression=length))


def _extract(call: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return whole seconds since 1970 for the field EPOCH, which Spark lacks."""
    field, *time = call.expressions
    if field.name.upper() != "EPOCH" or len(time) != 1:
        return None
    type_ = type_of(time[0])
    if type_ == "timestamp":
        micros = function_call("UNIX_MICROS", time[0])
        return exp.Paren(this=exp.IntDiv(this=micros, expression=literal(1_000_000)))
    local = _to_wall_clock(time[0], type_)
    if local is None:
        return None
    start = exp.Var(this="TIMESTAMP_NTZ '1970-01-01 00:00:00'")
    since = exp.Sub(this=exp.Paren(this=local), expression=start)
    length = exp.Var(this=f"INTERVAL {LENGTHS['SECOND']}")
    return exp.Paren(this=exp.IntDiv(this=exp.Paren(this=since), expression=length))


_REWRITES: dict[str, Callable[[Any, TypeOf], exp.Expr | None]] = {
    "DATEDIFF": _timestampdiff,
    "DATE_DIFF": _timestampdiff,
    "DATE_FORMAT": _date_format,
    "DATE_TRUNC": _date_trunc,
    "EXTRACT": _extract,
    "TIMESTAMPDIFF": _timestampdiff,
    "TO_TIMESTAMP": _to_timestamp,
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
}


def _to_wall_clock(value: exp.Expr, type_: str | None) -> exp.Expr | None:
    """Return a TIMESTAMP without a zone, or a DATE as its midnight. None for other types."""
    if type_ == "date":
        return midnight_of(value.copy())
    return value.copy() if type_ == WALL_CLOCK else None


def midnight_of(date: exp.Expr) -> exp.Expr:
    """Return midnight of a DATE as a TIMESTAMP without a zone."""
    return cast_as(date, "TIMESTAMP_NTZ")


def floor_clock(value: exp.Expr, unit: str) -> exp.Expr:
    """Truncate a wall-clock time to the start of its day, hour and so on.

    Args:
        value: A TIMESTAMP without a zone.
        unit: DAY, HOUR, MINUTE, SECOND, MILLISECOND or MICROSECOND.
    """
    if unit == "MICROSECOND":
        return value.copy()
    if unit in ("DAY", "DD"):
        return midnight_of(cast_as(value.copy(), "date"))
    second: exp.Expr = KeywordCall(
        this="EXTRACT", expressions=[exp.Var(this="SECOND"), value.copy()], words=["", "FROM"]
    )
    minute: exp.Expr = literal(0)
    if unit in ("SECOND", "MILLISECOND"):
        step = exp.Literal.number("1" if unit == "SECOND" else "0.001")
        second = exp.Mod(this=exp.Paren(this=second), expression=step)
    elif unit == "HOUR":
        minute = function_call("MINUTE", value)
    rest = function_call("MAKE_DT_INTERVAL", literal(0), literal(0), minute, second)
    return exp.Paren(this=exp.Sub(this=exp.Paren(this=value.copy()), expression=rest))
