"""Explain why a column of mostly times stays STRING, and which expression reads it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.detection.epochs import epoch_unit
from runtime.detection.times import (
    ISO,
    TimeFormat,
    TimeGroup,
    month_pattern,
    shown_pattern,
    time_groups,
)
from runtime.names import quote_name

# Minimum share of times for a note
_NEARLY = 0.5
_WHOLE = re.compile(r"\d{9,18}", re.ASCII)
# Functions that turn integers into times
_FROM_EPOCH = {
    "epoch-seconds": "TIMESTAMP_SECONDS",
    "epoch-millis": "TIMESTAMP_MILLIS",
    "epoch-micros": "TIMESTAMP_MICROS",
}


@dataclass(frozen=True)
class DoubtfulTimes:
    """A column of texts that are mostly times.

    Attributes:
        note: Reason why they stay texts. Empty if only `misfits` keep them from being times.
        misfits: The values that are not times.
        type: Spark type of the other values.
        shown: Notation of the other values for messages.
    """

    note: str = ""
    misfits: tuple[str, ...] = ()
    type: str = ""
    shown: str = ""


def month_note(name: str, pattern: str) -> str:
    """Return a note about a column of months."""
    return (
        f"`{name}` is STRING; if its values are months, TO_TIMESTAMP({quote_name(name)}, "
        f"'{pattern}') gives their beginnings, as does 'fields.{name}.format' = '{pattern}'"
    )


def doubtful_times(
    name: str, values: Sequence[str], day_first: bool | None
) -> DoubtfulTimes | None:
    """Return why a text column in which most values are times stays text, or None for another.

    Args:
        name: Column name.
        values: Values that have no common notation, none empty.
        day_first: Whether the day precedes the month, if the file shows it.
    """
    groups = time_groups(values, day_first)
    are_times = {value for group in groups for value in group.values}
    distinct = dict.fromkeys(values)
    others = tuple(value for value in distinct if value not in are_times)
    if not groups:
        return _doubtful_months(list(distinct))
    unit = epoch_unit([int(v) for v in others]) if all(map(_WHOLE.fullmatch, others)) else ""
    if unit in _FROM_EPOCH:
        return DoubtfulTimes(_with_numbers(name, groups, others[0], unit))
    if len(are_times) < _NEARLY * len(distinct):
        return None
    if len(groups) > 1:
        return DoubtfulTimes(_several_notations(name, groups, others))
    (group,) = groups
    shown = shown_pattern(group.format, group.values)
    return DoubtfulTimes(misfits=others, type=group.format.type, shown=shown)


def _doubtful_months(values: Sequence[str]) -> DoubtfulTimes | None:
    months = [value for value in values if month_pattern([value]) is not None]
    pattern = month_pattern(months)
    if pattern is None or len(months) < _NEARLY * len(values):
        return None
    others = tuple(value for value in values if value not in months)
    return DoubtfulTimes(misfits=others, type="date", shown=pattern)


def _several_notations(name: str, groups: Sequence[TimeGroup], others: Sequence[str]) -> str:
    formats = [group.format for group in groups]
    has_zone = any(time.type == "timestamp" for time in formats)
    if all(time.pattern == ISO for time in formats):
        return (
            f"`{name}` is STRING, because only some of its times have a zone; TRY_CAST("
            f"{quote_name(name)} AS TIMESTAMP_LTZ) takes the others as times in the session's zone"
        )
    shown = ", ".join(f"{g.values[0]!r} is {shown_pattern(g.format, g.values)}" for g in groups)
    more = f", and {others[0]!r} is not a time" if others else ""
    note = f"`{name}` is STRING, because its times have several formats: {shown}{more}"
    if any(group.format.ambiguous is not None for group in groups):
        return note
    column = quote_name(name)
    return f"{note}; use {_instants(column, formats) if has_zone else _local(column, formats)}"


def _with_numbers(name: str, groups: Sequence[TimeGroup], number: str, unit: str) -> str:
    """Return the note about times next to integers that are times."""
    note = (
        f"`{name}` is STRING, because it has numbers such as {number} next to texts such as "
        f"{groups[0].values[0]!r}"
    )
    if any(group.format.ambiguous is not None for group in groups):
        return note
    column = quote_name(name)
    from_number = f"{_FROM_EPOCH[unit]}(TRY_CAST({column} AS BIGINT))"
    return f"{note}; use {_instants(column, [g.format for g in groups], from_number)}"


def _instants(column: str, formats: Sequence[TimeFormat], *others: str) -> str:
    """Return an expression that reads texts as TIMESTAMP_LTZ, NULL for those in no format."""
    ways = dict.fromkeys(
        f"TRY_CAST({column} AS TIMESTAMP_LTZ)"
        if time.pattern == ISO
        else f"TRY_TO_TIMESTAMP({column}, {_literal(time)})"
        for time in formats
    )
    return f"COALESCE({', '.join([*others, *ways])})"


def _local(column: str, formats: Sequence[TimeFormat]) -> str:
    """Return an expression that reads texts as TIMESTAMP, NULL for those in no format.

    TRY_TO_TIMESTAMP gives an instant, which some times on a wall clock are not.
    """
    iso = (
        f"ELSE TRY_CAST({column} AS TIMESTAMP(6)) "
        if any(t.pattern == ISO for t in formats)
        else ""
    )
    cases = " ".join(
        f"WHEN TRY_TO_TIMESTAMP({column}, {_literal(time)}) IS NOT NULL "
        f"THEN TO_TIMESTAMP({column}, {_literal(time)})"
        for time in formats
        if time.pattern != ISO
    )
    return f"CASE {cases} {iso}END"


def _literal(time: TimeFormat) -> str:
    return "'" + time.pattern.replace("'", "''") + "'"
