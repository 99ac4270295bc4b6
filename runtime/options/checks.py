"""Check the WITH options of a table: names and values, with suggestions for misspellings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from runtime.errors import CatalogError, ErrorKind, nearest
from runtime.spec.table import IDLE_ADVANCE, LATE_ROWS, OPTIONS_OF_STREAMS, TableSpec

# How often a table is searched for new files or versions
MONITOR_INTERVAL = "source.monitor-interval"
_DURATION = re.compile(r"\s*(\d+)\s*([a-zµ]*)\s*", re.IGNORECASE)
# Flink's unit labels in microseconds; a number without a unit is in milliseconds
_UNITS_US = {
    "d day days": 86_400_000_000,
    "h hour hours": 3_600_000_000,
    "m min minute minutes": 60_000_000,
    "s sec secs second seconds": 1_000_000,
    "ms milli millis millisecond milliseconds": 1_000,
    "µs us micro micros microsecond microseconds": 1,
}
# Quoted texts and names in messages; an apostrophe is not a quote
# Maximum number of options that a hint lists
_SHOWN_OPTIONS = 25
_QUOTED, _NAMED = re.compile(r"(?<!\w)'[^']+'"), re.compile(r"`([^`]+)`")
_SIZE = re.compile(r"\s*([1-9]\d*)\s*([kmgt]?)b?(?:ytes)?\s*", re.IGNORECASE)
_UNIT_US = {label: us for labels, us in _UNITS_US.items() for label in labels.split()} | {"": 1_000}


Check = Callable[[str], str | None]


@dataclass(frozen=True)
class Option:
    """Option of a connector.

    Attributes:
        doc: One line of help. Empty for an alternative spelling.
        check: Returns a description of valid values ("true or false") if the value is invalid, or
            else None.
        values: Valid values for the help, if there are few.
        required: Whether the table needs the option.
        has_effect: Whether the option has an effect. Some of Flink's are only accepted.
    """

    doc: str = ""
    check: Check = lambda value: None
    values: tuple[str, ...] = ()
    required: bool = False
    has_effect: bool = True


def choice(doc: str, *values: str) -> Option:
    """Return an option with one of `values`, ignoring case."""
    return Option(doc, one_of(*values), values)


def switch(doc: str = "") -> Option:
    """Return an option that is true or false."""
    return choice(doc, "true", "false")


def without_effect(check: Check = lambda value: None) -> Option:
    """Return a Flink option that is accepted and has no effect."""
    return Option("Flink option without effect", check, has_effect=False)


def one_of(*values: str) -> Check:
    """Return a check that the value is one of `values`, ignoring case."""
    lower_values = [value.lower() for value in values]
    return lambda value: None if value.lower() in lower_values else " or ".join(values)


def integer(least: int, most: int = 2**63 - 1) -> Check:
    """Return a check for an integer from `least` to `most`."""

    def check(value: str) -> str | None:
        is_number = re.fullmatch(r"[+-]?\d+", value.strip()) is not None
        fits = is_number and least <= int(value) <= most
        return None if fits else f"a whole number, at least {least}"

    return check


def fraction(value: str) -> str | None:
    """Check for a number from 0 to 1."""
    try:
        return None if 0 <= float(value) <= 1 else "a number from 0 to 1"
    except ValueError:
        return "a number from 0 to 1"


def one_character(value: str) -> str | None:
    """Check for a single character."""
    return None if len(value) == 1 else "a single character"


def pattern(value: str) -> str | None:
    """Check for a regular expression."""
    try:
        re.compile(value)
    except re.error as error:
        return f"a regular expression ({error})"
    return None


def timestamp(value: str) -> str | None:
    """Check for a time such as `2026-05-01 12:00:00`."""
    try:
        datetime.fromisoformat(value.strip())
    except ValueError:
        return "a time such as '2026-05-01 12:00:00'"
    return None


def duration(value: str) -> str | None:
    """Check for a duration such as `5 s` or `10 min`."""
    return None if duration_us(value) is not None else "a duration such as '5 s' or '10 min'"


def duration_us(value: str) -> int | None:
    """Parse a duration in Flink's spelling, such as `10 min`, to microseconds. None if invalid."""
    match = _DURATION.fullmatch(value)
    if match is None or match.group(2).lower() not in _UNIT_US:
        return None
    return int(match.group(1)) * _UNIT_US[match.group(2).lower()]


def size(value: str) -> str | None:
    """Check for a size in bytes such as `128 mb`."""
    return None if bytes_of(value) is not None else "a size such as '128 mb'"


def bytes_of(value: str) -> int | None:
    """Parse a size in Flink's spelling, such as `128 mb`, to bytes. None if invalid."""
    match = _SIZE.fullmatch(value)
    if match is None:
        return None
    return int(match.group(1)) << 10 * " kmgt".index(match.group(2).lower() or " ")


def check_options(
    spec: TableSpec, options: Mapping[str, Option], other: Iterable[str] = ()
) -> None:
    """Check the options of `spec` against its connector's options.

    Args:
        spec: Table specification.
        options: Options of the connector; names are matched ignoring case.
        other: Additional valid names, with any value.

    Raises:
        CatalogError: An option is unknown, missing, repeated, or has an invalid value.
    """
    by_name = {name.lower(): (name, option) for name, option in options.items()}
    free = {name.lower(): name for name in other}
    spellings: dict[str, str] = {}
    for name, value in spec.options:
        lower_name = name.lower()
        if lower_name in spellings:
            raise bad_option(spec, f"option '{name}' is given twice")
        spellings[lower_name] = value
        if lower_name in free:
            continue
        if lower_name not in by_name:
            raise unknown_option(spec, name, [*options, *free.values()])
        spelling, option = by_name[lower_name]
        if expected := option.check(value):
            raise wrong_value(spec, spelling, value, f"it must be {expected}")
    for name, option in options.items():
        if option.required and name.lower() not in spellings:
            hint = f"add '{name}' = '...' to WITH: {option.doc}"
            raise missing_option(spec, name, hint)


def check_stream_options(spec: TableSpec) -> None:
    """Check the options that all tables with streams share.

    Raises:
        CatalogError: An option is given twice or has an invalid value.
    """
    names = [name.lower() for name, _ in spec.options]
    for option in OPTIONS_OF_STREAMS:
        if names.count(option) > 1:
            raise bad_option(spec, f"option '{option}' is given twice")
    target = option_values(spec).get(LATE_ROWS)
    if target is not None and not target.strip():
        raise bad_option(
            spec, f"option '{LATE_ROWS}' is empty", "it must be drop or the name of a table"
        )
    if spec.idle_advance is not None and (expected := duration(spec.idle_advance)):
        raise wrong_value(spec, IDLE_ADVANCE, spec.idle_advance, f"it must be {expected}")


def option_values(spec: TableSpec) -> dict[str, str]:
    """Return the options of `spec` by lower-case name."""
    return {name.lower(): value for name, value in spec.options}


def is_monitored(spec: TableSpec) -> bool:
    """Return whether new files or versions of a table are monitored, which makes it unbounded."""
    return MONITOR_INTERVAL in option_values(spec)


def monitor_interval_us(spec: TableSpec) -> int | None:
    """Return the monitor interval in microseconds, or None to read only existing files."""
    text = option_values(spec).get(MONITOR_INTERVAL)
    return None if text is None else duration_us(text)


def bad_option(
    spec: TableSpec, what: str, hint: str | None = None, subjects: tuple[str, ...] | None = None
) -> CatalogError:
    """Return the error for an option of `spec`.

    Its subjects are the options and values quoted in `what`, the last one first (`option 'a' is
    'b'` is about `'b'`), and then names in backticks. `subjects` replaces the quoted ones.
    """
    literals = _QUOTED.findall(what)[::-1] if subjects is None else subjects
    names = _NAMED.findall(what)
    return CatalogError(
        f"table `{spec.name}` (connector '{spec.connector}'): {what}",
        hint=hint,
        kind=ErrorKind.OPTION,
        subjects=(*literals, f"'{spec.connector}'", spec.name, *names),
    )


def missing_option(spec: TableSpec, name: str, hint: str | None = None) -> CatalogError:
    """Return the error for a missing option."""
    return bad_option(spec, f"option '{name}' is missing", hint)


def wrong_value(spec: TableSpec, name: str, value: str | None, hint: str) -> CatalogError:
    """Return the error for an option with an invalid value."""
    what = f"invalid value '{value}' for option '{name}'"
    return bad_option(spec, what, hint, subjects=(f"'{value}'", f"'{name}'"))


def unknown_option(spec: TableSpec, name: str, available: Iterable[str]) -> CatalogError:
    """Return the error for an option that the connector does not have."""
    names = list(available)
    suggestion = nearest(name, names)
    shown_names = ", ".join(sorted(names)[:_SHOWN_OPTIONS]) or "none"
    hint = f"did you mean '{suggestion}'?" if suggestion else f"available options: {shown_names}"
    return bad_option(spec, f"unknown option '{name}'", hint)
