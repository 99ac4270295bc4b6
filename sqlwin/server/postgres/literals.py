"""Texts of PostgreSQL's literals as literals of sqlwin."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from uuid import UUID

from planner.sql.render import quote_string
from sqlwin.server.intervals import read_interval
from sqlwin.server.postgres.errors import INVALID_TEXT, unsupported
from sqlwin.server.postgres.types import TypeName


def months_and_micros(text: str) -> tuple[int, int]:
    """Return the months and microseconds of an interval's text.

    Raises:
        UntranslatableError: The text is invalid.
    """
    try:
        return read_interval(text)
    except ValueError as error:
        message = f'invalid input syntax for type interval: "{text}"'
        raise unsupported(message, sqlstate="22007") from error


def interval_literal(text: str) -> str:
    """Return an interval's text as a literal of sqlwin.

    Example:
        >>> interval_literal("7 days"), interval_literal("90 minutes"), interval_literal("1 year")
        ("INTERVAL '7' DAY", "INTERVAL '90' MINUTE", "INTERVAL '12' MONTH")
    """
    months, micros = months_and_micros(text)
    if months and micros:
        raise unsupported(
            f"the interval '{text}' has months and days, which one interval cannot hold",
            hint="add two intervals one after the other",
        )
    return f"INTERVAL '{months}' MONTH" if months else micros_literal(micros)


def micros_literal(micros: int) -> str:
    """Return a number of microseconds as an interval with a single unit."""
    for unit, size in (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000)):
        if micros and micros % size == 0:
            return f"INTERVAL '{micros // size}' {unit}"
    sign, rest = ("-" if micros < 0 else ""), abs(micros)
    fraction = f".{rest % 1_000_000:06}" if rest % 1_000_000 else ""
    return f"INTERVAL '{sign}{rest // 1_000_000}{fraction}' SECOND"


def _timestamp(text: str) -> str | None:
    value = _moment(text)
    return None if value is None else f"TIMESTAMP_NTZ '{value.replace(tzinfo=None)}'"


def _instant(text: str) -> str | None:
    value = _moment(text)
    if value is None:
        return None
    shown = value if value.tzinfo is None else value.astimezone(UTC)
    return f"TIMESTAMP_LTZ '{shown}'"


def _moment(text: str) -> datetime | None:
    stripped = text.strip()
    if stripped.lower() == "epoch":
        return datetime.fromtimestamp(0, UTC)
    try:
        return datetime.fromisoformat(stripped)
    except ValueError:
        pass
    for zone in (" UTC", " GMT"):
        if stripped.upper().endswith(zone):
            return _moment(f"{stripped[: -len(zone)]}+00:00")
    return None


def _date(text: str) -> str | None:
    value = _moment(text)
    return None if value is None else f"DATE '{date.isoformat(value)[:10]}'"


def _bytes(text: str) -> str:
    if text.startswith("\\x"):
        try:
            return f"X'{bytes.fromhex(text[2:]).hex().upper()}'"
        except ValueError as error:
            raise _invalid("bytea", text) from error
    return f"X'{text.encode().hex().upper()}'"


def _uuid(text: str) -> str:
    try:
        return quote_string(str(UUID(text.strip())))
    except ValueError as error:
        raise _invalid("uuid", text) from error


def _json(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        raise _invalid("json", text) from error
    return quote_string(text)


def _invalid(kind: str, text: str) -> Exception:
    message = f'invalid input syntax for type {kind}: "{text}"'
    return unsupported(message, sqlstate=INVALID_TEXT)


# How the text of a literal of a type becomes a literal of sqlwin; None: a cast reads it
_LITERALS: dict[str, Callable[[str], str | None]] = {
    "bytea": _bytes,
    "date": _date,
    "interval": interval_literal,
    "json": _json,
    "jsonb": _json,
    "timestamp": _timestamp,
    "timestamp without time zone": _timestamp,
    "timestamptz": _instant,
    "timestamp with time zone": _instant,
    "uuid": _uuid,
}


def literal(text: str, kind: TypeName) -> str | None:
    """Return a typed string as a literal of sqlwin, None if a cast reads it.

    Raises:
        UntranslatableError: The text is invalid for the type.
    """
    if kind.n_dimensions:
        items = [
            "NULL" if item is None else f"CAST({quote_string(item)} AS {_element(kind)})"
            for item in array_items(text)
        ]
        return f"CAST(ARRAY({', '.join(items)}) AS {kind.sqlwin})"
    if kind.name in ("varchar", "character varying") and kind.arguments:
        return quote_string(text[: int(kind.arguments[0])])
    read = _LITERALS.get(kind.name)
    return None if read is None else read(text)


def _element(kind: TypeName) -> str:
    return TypeName(kind.name, kind.arguments).sqlwin


_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}"]*?))\s*(,|$)')


def array_items(text: str) -> list[str | None]:
    """Return the items of an array's text in one dimension.

    Example:
        >>> array_items('{a,"b,c",NULL}'), array_items("{}")
        (['a', 'b,c', None], [])
    """
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        message = f'malformed array literal: "{text}"'
        raise unsupported(message, sqlstate=INVALID_TEXT)
    inner, items, at = stripped[1:-1], list[str | None](), 0
    while at < len(inner) or (items and inner.endswith(",") and at == len(inner)):
        found = _ITEM.match(inner, at)
        if found is None:
            raise unsupported(
                f'malformed array literal, or of several dimensions: "{text}"',
                sqlstate=INVALID_TEXT,
            )
        quoted, plain = found[1], found[2]
        if quoted is not None:
            items.append(re.sub(r"\\(.)", r"\1", quoted))
        else:
            items.append(None if plain.upper() == "NULL" else plain)
        at = found.end()
        if not found[3]:
            break
    return items
