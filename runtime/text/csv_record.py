"""Split a line of CSV into fields like Spark's reader, including lines with stray quotes.

Spark uses the univocity parser, whose reading of faulty quotes no specification describes. This is
the same state machine for one line at a time, with `unescapedQuoteHandling` STOP_AT_DELIMITER.
"""

from __future__ import annotations

# Spark trims nothing, but the parser skips these between a closing quote and the delimiter
_LAST_SPACE = " "


def split_record(line: str, delimiter: str, quote: str) -> list[str | None]:
    """Return the fields of a line; None for fields that are empty and not quoted.

    Args:
        line: Line without its end, not blank.
        delimiter: Separator of fields, one character.
        quote: Character around fields, doubled inside them. Empty if fields are not quoted.
    """
    if not quote or quote not in line:
        return [field or None for field in line.split(delimiter)]
    fields: list[str | None] = []
    place, end = 0, len(line)
    while True:
        if place == end:
            fields.append(None)
            return fields
        if line[place] == delimiter:
            fields.append(None)
            place += 1
            continue
        if line[place] == quote:
            value, place = _quoted_field(line, place + 1, delimiter, quote)
            fields.append(value)
        else:
            stop = line.find(delimiter, place)
            stop = end if stop < 0 else stop
            fields.append(line[place:stop])
            place = stop
        if place == end:
            return fields
        place += 1


def _quoted_field(line: str, place: int, delimiter: str, quote: str) -> tuple[str, int]:
    """Return a field that begins with a quote, and the place of the delimiter after it.

    Args:
        line: The line.
        place: Place after the opening quote.
        delimiter: Separator of fields.
        quote: The quote.
    """
    end = len(line)
    if place == end:
        return quote, end
    parts: list[str] = []
    while True:
        stop = line.find(quote, place)
        if stop < 0:
            # never closed: take the rest of the line
            parts.append(line[place:])
            return "".join(parts), end
        parts.append(line[place:stop])
        after = stop + 1
        if after == end or line[after] == delimiter:
            return "".join(parts), after
        if line[after] == quote:
            parts.append(quote)
            place = after + 1
            continue
        if line[after] > _LAST_SPACE:
            return _unescaped(line, "".join(parts), stop, delimiter, quote)
        past = after
        while past < end and line[past] <= _LAST_SPACE and line[past] != delimiter:
            past += 1
        if past == end or line[past] == delimiter:
            return "".join(parts), past
        value, at = _unescaped(line, "".join(parts), stop, delimiter, quote)
        if at == end and line[past] != quote and line[past + 1 : past + 2] == quote:
            # the parser remembers this quote and adds it again at the end of the line
            value += quote
        return value, at


def _unescaped(line: str, value: str, stop: int, delimiter: str, quote: str) -> tuple[str, int]:
    """Return a field in which text follows a closing quote: it ends at the next delimiter."""
    at = line.find(delimiter, stop)
    at = len(line) if at < 0 else at
    return f"{quote}{value}{line[stop:at]}", at
