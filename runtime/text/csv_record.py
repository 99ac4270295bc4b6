"""Split a line of CSV into fields like Spark's reader, including lines with stray quotes.

Spark uses the univocity parser, whose reading of faulty quotes no specification describes. This is
the same state machine for one line at a time, with `unescapedQuoteHandling` STOP_AT_DELIMITER.
"""

from __future__ import annotations

import re
from functools import lru_cache

# Spark trims nothing, but the parser skips these between a closing quote and the delimiter
_LAST_SPACE = " "
_BLANKS = "".join(map(chr, range(ord(_LAST_SPACE) + 1)))


def split_record(
    line: str,
    delimiter: str,
    quote: str,
    escape: str = "",
    trims: tuple[bool, bool] = (False, False),
) -> list[str | None]:
    """Return the fields of a line; None for fields that are empty and not quoted.

    Args:
        line: Line without its end, not blank.
        delimiter: Separator of fields, one character.
        quote: Character around fields, doubled inside them. Empty if fields are not quoted.
        escape: Character before a quote in a quoted field. Empty if quotes are doubled.
        trims: Whether blanks at the start and at the end of fields are ignored.
    """
    if not quote or quote not in line:
        return [_trimmed(field, trims) or None for field in line.split(delimiter)]
    fields: list[str | None] = []
    place, end = 0, len(line)
    while True:
        while trims[0] and place < end and line[place] <= _LAST_SPACE and line[place] != delimiter:
            place += 1
        if place == end:
            fields.append(None)
            return fields
        if line[place] == delimiter:
            fields.append(None)
            place += 1
            continue
        if line[place] == quote:
            value, place = _quoted_field(line, place + 1, delimiter, quote, escape, trims)
            fields.append(value)
        else:
            stop = line.find(delimiter, place)
            stop = end if stop < 0 else stop
            fields.append(_trimmed(line[place:stop], trims) or None)
            place = stop
        if place == end:
            return fields
        place += 1


def _trimmed(field: str, trims: tuple[bool, bool]) -> str:
    field = field.lstrip(_BLANKS) if trims[0] else field
    return field.rstrip(_BLANKS) if trims[1] else field


def _quoted_field(
    line: str, place: int, delimiter: str, quote: str, escape: str, trims: tuple[bool, bool]
) -> tuple[str, int]:
    """Return a field that begins with a quote, and the place of the delimiter after it.

    Args:
        line: The line.
        place: Place after the opening quote.
        delimiter: Separator of fields.
        quote: The quote.
        escape: Character before a quote. Empty if quotes are doubled.
        trims: Whether blanks at the start and at the end of fields are ignored.
    """
    end = len(line)
    if place == end:
        return quote, end
    parts: list[str] = []
    while True:
        if escape:
            place = _append_escaped(line, place, quote, escape, parts)
        stop = line.find(quote, place)
        if stop < 0:
            # never closed: take the rest of the line
            parts.append(line[place:])
            return "".join(parts), end
        parts.append(line[place:stop])
        if escape:
            # of several quotes before the delimiter, the last one closes the field
            rest = line[stop:].lstrip(quote)
            n_more = end - stop - len(rest) - 1
            blanks = _BLANKS.replace(delimiter, "")
            if n_more and rest.lstrip(blanks)[:1] in ("", delimiter):
                parts.append(quote * n_more)
                stop += n_more
        after = stop + 1
        if after == end or line[after] == delimiter:
            return "".join(parts), after
        if line[after] == quote and not escape:
            parts.append(quote)
            place = after + 1
            continue
        if line[after] > _LAST_SPACE:
            value, at = _unescaped(line, "".join(parts), stop, delimiter, quote)
            return _trimmed(value, trims), at
        past = after
        while past < end and line[past] <= _LAST_SPACE and line[past] != delimiter:
            past += 1
        if past == end or line[past] == delimiter:
            return "".join(parts), past
        value, at = _unescaped(line, "".join(parts), stop, delimiter, quote)
        if at == end and line[past] != quote and line[past + 1 : past + 2] == quote:
            # the parser remembers this quote and adds it again at the end of the line
            value += quote
        return _trimmed(value, trims), at


def _append_escaped(line: str, place: int, quote: str, escape: str, parts: list[str]) -> int:
    """Append the text up to the last escape before a quote, and return the place after it."""
    while True:
        found = _either(quote, escape).search(line, place)
        if found is None or found[0] == quote:
            return place
        stop = found.start()
        is_escape = line[stop + 1 : stop + 2] in (quote, escape, "")
        parts.append(line[place : stop + (not is_escape)])
        place = stop + 1
        if is_escape:
            parts.append(line[place : place + 1])
            place += 1


@lru_cache(maxsize=16)
def _either(quote: str, escape: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(quote + escape)}]")


def _unescaped(line: str, value: str, stop: int, delimiter: str, quote: str) -> tuple[str, int]:
    """Return a field in which text follows a closing quote: it ends at the next delimiter."""
    at = line.find(delimiter, stop)
    at = len(line) if at < 0 else at
    return f"{quote}{value}{line[stop:at]}", at
