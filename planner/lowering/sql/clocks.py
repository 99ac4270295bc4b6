"""Instants on the clocks of a time zone."""

from __future__ import annotations

from datetime import timedelta, timezone

from sqlglot import exp

from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.target import Target
from planner.lowering.sql.text import binary
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
    rules = time_zone(zone)
    if isinstance(rules, timezone):
        offset_us = rules.utcoffset(None) // timedelta(microseconds=1)
        time_us = target.to_us(time, type_)
        if not offset_us:
            return time_us
        return binary(exp.Add if offset_us > 0 else exp.Sub, time_us, abs(offset_us))
    there = target.wall_clock_us(time, zone) if rules is not None else None
    if there is None:
        refuse_part(
            f"TIMESTAMP_LTZ on the clocks of {zone}, which {target.title} may know differently",
            part,
            "SET 'table.local-time-zone' = 'UTC', or use a TIMESTAMP column",
        )
    return there
