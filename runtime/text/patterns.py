"""Time patterns of Java that are parsed here, without Java."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<quoted>[^']+)'|(?P<sign>[^A-Za-z'\[\]{}#])")
_FIELDS = {
    "yyyy": r"(?P<year>[0-9]{4}|\+[0-9]{5,10}|-[0-9]{4,10})",
    "MM": "(?P<month>[0-9]{2})",
    "M": "(?P<month>[0-9]{1,19})",
    "dd": "(?P<day>[0-9]{2})",
    "d": "(?P<day>[0-9]{1,19})",
    "HH": "(?P<hour>[0-9]{2})",
    "H": "(?P<hour>[0-9]{1,19})",
    "mm": "(?P<minute>[0-9]{2})",
    "m": "(?P<minute>[0-9]{1,19})",
    "ss": "(?P<second>[0-9]{2})",
    "s": "(?P<second>[0-9]{1,19})",
}
# Fields of two digits, which may follow a field of a certain number of digits without a separator
_TWO_DIGITS = frozenset({"MM", "dd", "HH", "mm", "ss"})


def pattern_regex(pattern: str) -> str | None:
    """Return a regular expression for the times of a pattern, or None if only Java reads it.

    Fields of any number of digits must be separated, and a year, month and day are required. As in
    Spark, a fraction may have fewer digits than its pattern.

    Example:
        >>> pattern_regex("yyyy-MM") is None
        True
    """
    parts: list[str] = []
    names: list[str] = []
    place, before = 0, ""
    while place < len(pattern):
        match = _TOKEN.match(pattern, place)
        if match is None:
            return None
        place = match.end()
        letters = match["letters"]
        if letters is None:
            text = match["quoted"] or match["sign"]
            if not text.isascii():
                return None
            # literals ignore case
            parts.append(f"(?i:{re.escape(text)})")
            before = ""
            continue
        is_fraction = set(letters) == {"S"} and len(letters) <= 9
        field = f"(?P<fraction>[0-9]{{1,{len(letters)}}})" if is_fraction else _FIELDS.get(letters)
        is_fixed = letters in _TWO_DIGITS and (before in _TWO_DIGITS or before == "yyyy")
        if field is None or (before and not is_fixed):
            return None
        parts.append(field)
        names.append(field.partition(">")[0].removeprefix("(?P<"))
        before = letters
    is_unique = len(set(names)) == len(names)
    if not is_unique or not {"year", "month", "day"} <= set(names):
        return None
    return rf"\A{''.join(parts)}\z"
