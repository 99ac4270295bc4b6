"""Instants on the clocks of a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import NoReturn

from sqlglot import exp

from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.target import Target
from planner.lowering.sql.text import binary, call, case, cast, number
from planner.scalars.literals import time_zone


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


def instant(target: Target, time_us: exp.Expr, zone: str, part: str) -> exp.Expr:
    """Return the instant at which clocks show microseconds since 1970. Args are as in `local_us`.

    Raises:
        NotPortable: The target may have other clocks.
    """
    offset_us = _fixed_offset_us(zone)
    if offset_us is not None:
        return target.from_us(_plus(time_us, -offset_us), "timestamp")
    there = target.instant(time_us, zone) if time_zone(zone) is not None else None
    if there is None:
        _refuse(target, zone, part)
    return _within_rules(target, time_us, there, "timestamp", zone)


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
