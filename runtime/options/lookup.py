"""Options of a bounded table that is joined to a stream: how long its rows are cached."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time

from runtime.errors import CatalogError
from runtime.options.checks import (
    Option,
    bad_option,
    choice,
    duration,
    duration_us,
    integer,
    option_values,
    wrong_value,
)
from runtime.spec.table import (
    LOOKUP_CACHE,
    RELOAD_DAYS,
    RELOAD_INTERVAL,
    RELOAD_SCHEDULE,
    RELOAD_STRATEGY,
    RELOAD_TIME,
    PeriodicReload,
    Reload,
    TableSpec,
    TimedReload,
)

_PERIODIC, _TIMED = "PERIODIC", "TIMED"


def _iso_time(value: str) -> str | None:
    """Check for a time of day."""
    return None if _time_of(value) is not None else "a time such as 10:15, 10:15Z or 10:15+07:00"


def _time_of(value: str) -> time | None:
    try:
        return time.fromisoformat(value.strip())
    except ValueError:
        return None


# Options of every connector that reads bounded tables
LOOKUP: Mapping[str, Option] = {
    LOOKUP_CACHE: choice(
        "cache of a bounded table that is joined to a stream. NONE (default): each micro-batch "
        "reads the table again; FULL: the table is read whole and kept",
        "NONE",
        "FULL",
    ),
    RELOAD_STRATEGY: choice(
        "when a FULL cache is read again: after an interval (default), or at a time of day",
        _PERIODIC,
        _TIMED,
    ),
    RELOAD_INTERVAL: Option(
        "PERIODIC: time after which the table is read again, such as 10 min", duration
    ),
    RELOAD_SCHEDULE: choice("PERIODIC: the interval begins when a reading ends", "FIXED_DELAY"),
    RELOAD_TIME: Option(
        "TIMED: time of day such as 10:15, 10:15Z or 10:15+07:00; without a zone in the session's",
        _iso_time,
    ),
    RELOAD_DAYS: Option("TIMED: days between two readings; default 1", integer(1, 36_500)),
}


def lookup_reload(spec: TableSpec) -> Reload | None:
    """Return when a cached table is read again; None without a cache.

    Raises:
        CatalogError: An option is wrong, given twice or missing.
    """
    names = [name.lower() for name, _ in spec.options]
    values = option_values(spec)
    cache = values.get(LOOKUP_CACHE, "NONE")
    if cache.upper() == "PARTIAL":
        raise wrong_value(
            spec,
            LOOKUP_CACHE,
            cache,
            "it must be NONE or FULL: a micro-batch joins the whole table, so rows are not looked "
            f"up by key; use FULL with '{RELOAD_INTERVAL}'",
        )
    for name, option in LOOKUP.items():
        if names.count(name) > 1:
            raise bad_option(spec, f"option '{name}' is given twice")
        if name in values and (expected := option.check(values[name])):
            raise wrong_value(spec, name, values[name], f"it must be {expected}")
    if cache.upper() == "NONE":
        return None
    if values.get(RELOAD_STRATEGY, _PERIODIC).upper() == _PERIODIC:
        return _periodic(spec, values)
    text = values.get(RELOAD_TIME)
    if text is None:
        raise _missing(spec, RELOAD_TIME, "10:15")
    at = _time_of(text)
    assert at is not None, "the option has been checked"
    return TimedReload(at, int(values.get(RELOAD_DAYS, "1")), text)


def _periodic(spec: TableSpec, values: Mapping[str, str]) -> PeriodicReload:
    text = values.get(RELOAD_INTERVAL)
    if text is None:
        raise _missing(spec, RELOAD_INTERVAL, "10 min")
    interval_us = duration_us(text)
    if not interval_us:
        raise wrong_value(
            spec,
            RELOAD_INTERVAL,
            text,
            f"it must be longer than 0; '{LOOKUP_CACHE}' = 'NONE' reads the table "
            "again in each micro-batch",
        )
    return PeriodicReload(interval_us, text)


def _missing(spec: TableSpec, name: str, example: str) -> CatalogError:
    cached = f"'{LOOKUP_CACHE}' = 'FULL'"
    return bad_option(
        spec,
        f"{cached} requires the option '{name}'",
        f"add '{name}' = '{example}'",
        subjects=("'FULL'", f"'{LOOKUP_CACHE}'"),
    )
