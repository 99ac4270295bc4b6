"""Options of CREATE MATERIALIZED TABLE for old slices: `slices.tiers`, `slices.retention`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from runtime.errors import CatalogError, SqlwinError
from runtime.materialized.tiers import TierRules
from runtime.spec.materialized import LocalForm
from runtime.windows.intervals import render_duration
from runtime.windows.times import DAY_US
from sqlwin.config.parsing import parse_duration

TIERS, RETENTION = "slices.tiers", "slices.retention"
_TIER = re.compile(r"(?P<width>.+?)(?:\s+for\s+(?P<age>.+))?", re.IGNORECASE)
# Units beyond the ones that settings accept, in days
_LONG = {"w": 7, "week": 7, "weeks": 7, "y": 365, "year": 365, "years": 365}
_LONG_UNIT = re.compile(r"(\d+)\s*([a-z]+)", re.IGNORECASE)
_EXAMPLE = "'1 min for 7 d, 1 h for 1 y, 1 d'"


def rules_of(options: Sequence[tuple[str, str]], form: LocalForm) -> TierRules:
    """Return the rules for old slices.

    Raises:
        CatalogError: A value is not a duration, or does not fit the slices.
    """
    values = {key.lower(): value for key, value in options}
    tiers = _tiers(values[TIERS], form) if TIERS in values else ()
    if RETENTION not in values:
        return TierRules(tiers)
    text = values[RETENTION]
    retention_us = _duration(RETENTION, text, text)
    if tiers and retention_us <= tiers[-1][1]:
        age = render_duration(tiers[-1][1])
        raise _wrong(RETENTION, text, f"must be longer than the age of the last tier, {age}")
    if retention_us < form.grid.slice_width_us:
        raise _wrong(RETENTION, text, f"must be at least one slice, {form.grid.grid_text}")
    return TierRules(tiers, retention_us)


def _tiers(text: str, form: LocalForm) -> tuple[tuple[int, int], ...]:
    """Return width and minimum age of each tier except the first."""
    grid = form.grid
    if grid.is_calendar:
        raise _wrong(TIERS, text, f"slices of {grid.grid_text} cannot be merged")
    tiers: list[tuple[int, int | None]] = []
    for part in text.split(","):
        match = _TIER.fullmatch(part.strip())
        if match is None:
            raise _wrong(TIERS, text, f"expected a list such as {_EXAMPLE}")
        age = match["age"]
        width_us = _duration(TIERS, match["width"], text)
        tiers.append((width_us, None if age is None else _duration(TIERS, age, text)))
    if tiers[0][0] != grid.size_us:
        width = grid.grid_text
        raise _wrong(
            TIERS, text, f"the first tier must have the width of the query's slices, {width}"
        )
    for (width_us, age_us), (wider_us, next_us) in pairwise(tiers):
        if age_us is None:
            raise _wrong(TIERS, text, "only the last tier may leave out FOR")
        shown, wider = render_duration(width_us), render_duration(wider_us)
        if wider_us <= width_us or wider_us % width_us:
            raise _wrong(TIERS, text, f"{wider} is not a multiple of {shown}")
        if age_us < wider_us:
            age = render_duration(age_us)
            raise _wrong(
                TIERS,
                text,
                f"the age {age} of {shown} slices is shorter than the next slice width {wider}",
            )
        if next_us is not None and next_us <= age_us:
            ages = render_duration(age_us), render_duration(next_us)
            raise _wrong(TIERS, text, f"ages must increase: {ages[1]} follows {ages[0]}")
    ages_us = [age_us for _, age_us in tiers[:-1]]
    widths_us = [width_us for width_us, _ in tiers[1:]]
    return tuple((w, a) for w, a in zip(widths_us, ages_us, strict=True) if a is not None)


def _duration(key: str, text: str, option_text: str) -> int:
    match = _LONG_UNIT.fullmatch(text.strip())
    if match is not None and match[2].lower() in _LONG:
        return int(match[1]) * _LONG[match[2].lower()] * DAY_US
    try:
        us = parse_duration(key, text.strip())
    except SqlwinError as error:
        raise _wrong(
            key, option_text, f"'{text.strip()}' is not a duration such as 7 d, 1 h or 1 y"
        ) from error
    if us <= 0:
        raise _wrong(key, option_text, f"'{text.strip()}' must be positive")
    return us


def _wrong(key: str, text: str, why: str) -> CatalogError:
    return CatalogError(
        f"invalid value '{text}' for option '{key}': {why}",
        subjects=(f"'{text}'", f"'{key}'"),
        hint=f"for example '{key}' = {_EXAMPLE if key == TIERS else repr('2 y')}",
    )
