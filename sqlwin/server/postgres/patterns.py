"""Patterns of PostgreSQL: of to_char and to_timestamp, and regular expressions."""

from __future__ import annotations

import re

from planner.sql.render import quote_string
from sqlwin.server.postgres.errors import unsupported

# Words of a template, longest first, and the letters of Spark's patterns for them
_SIMPLE = {
    "YYYY": "yyyy", "YYY": None, "YY": "yy", "MM": "MM", "DDD": "DDD", "DD": "dd", "HH24": "HH",
    "HH12": "hh", "HH": "hh", "MI": "mm", "SS": "ss", "MS": "SSS", "US": "SSSSSS",
    "AM": "a", "PM": "a", "Mon": "MMM", "Dy": "E",
}  # fmt: skip
# Words that take an expression: `{}` is the time
_COMPUTED = {
    "MONTH": "RPAD(UPPER(DATE_FORMAT({}, 'MMMM')), 9, ' ')",
    "Month": "RPAD(DATE_FORMAT({}, 'MMMM'), 9, ' ')",
    "month": "RPAD(LOWER(DATE_FORMAT({}, 'MMMM')), 9, ' ')",
    "FMMONTH": "UPPER(DATE_FORMAT({}, 'MMMM'))",
    "FMMonth": "DATE_FORMAT({}, 'MMMM')",
    "FMmonth": "LOWER(DATE_FORMAT({}, 'MMMM'))",
    "MON": "UPPER(DATE_FORMAT({}, 'MMM'))",
    "mon": "LOWER(DATE_FORMAT({}, 'MMM'))",
    "DAY": "RPAD(UPPER(DATE_FORMAT({}, 'EEEE')), 9, ' ')",
    "Day": "RPAD(DATE_FORMAT({}, 'EEEE'), 9, ' ')",
    "day": "RPAD(LOWER(DATE_FORMAT({}, 'EEEE')), 9, ' ')",
    "FMDAY": "UPPER(DATE_FORMAT({}, 'EEEE'))",
    "FMDay": "DATE_FORMAT({}, 'EEEE')",
    "FMday": "LOWER(DATE_FORMAT({}, 'EEEE'))",
    "DY": "UPPER(DATE_FORMAT({}, 'E'))",
    "dy": "LOWER(DATE_FORMAT({}, 'E'))",
    "am": "LOWER(DATE_FORMAT({}, 'a'))",
    "pm": "LOWER(DATE_FORMAT({}, 'a'))",
    "D": "CAST(DAYOFWEEK({}) AS STRING)",
    "ID": "CAST(WEEKDAY({}) + 1 AS STRING)",
    "Q": "CAST(QUARTER({}) AS STRING)",
    "WW": "LPAD(CAST((DAYOFYEAR({}) - 1) DIV 7 + 1 AS STRING), 2, '0')",
    "W": "CAST((DAY({}) - 1) DIV 7 + 1 AS STRING)",
    "IW": "LPAD(CAST(WEEKOFYEAR({}) AS STRING), 2, '0')",
    "IYYY": "LPAD(CAST(EXTRACT(YEAROFWEEK FROM {}) AS STRING), 4, '0')",
    "FMMM": "DATE_FORMAT({}, 'M')",
    "FMDD": "DATE_FORMAT({}, 'd')",
    "FMHH24": "DATE_FORMAT({}, 'H')",
    "FMHH12": "DATE_FORMAT({}, 'h')",
    "FMHH": "DATE_FORMAT({}, 'h')",
}
_ANY_CASE = frozenset("YYYY YY MM DDD DD HH24 HH12 HH MI SS MS US D ID Q WW W IW IYYY".split())
# Template patterns of PostgreSQL, translated or not
_WORDS = re.compile(
    r"FMMONTH|FMDAY|FM(?:MM|DD|HH24|HH12|HH)|HH24|HH12|SSSSS|SSSS|IYYY|IYY|IDDD|YYYY|Y,YYY|YYY"
    r"|MONTH|DAY|DDD|TZH|TZM|TZ|A\.M\.|P\.M\.|B\.C\.|A\.D\.|FF[1-6]|MON|FM|FX|TM|TH|SP|AM|PM|BC|AD"
    r"|CC|DD|DY|HH|ID|IW|IY|MI|MM|MS|OF|RM|SS|US|WW|YY|D|I|J|Q|W|Y",
    re.IGNORECASE,
)


def _parts(pattern: str) -> list[tuple[bool, str]]:
    """Return the parts of a template: whether it is a word, and its text."""
    parts: list[tuple[bool, str]] = []
    at = 0
    while at < len(pattern):
        if pattern[at] == '"':
            end = pattern.find('"', at + 1)
            end = len(pattern) if end < 0 else end
            parts.append((False, pattern[at + 1 : end]))
            at = end + 1
        elif (word := _WORDS.match(pattern, at)) is not None:
            parts.append((True, word.group()))
            at = word.end()
        else:
            parts.append((False, pattern[at]))
            at += 1
    return parts


def _known(word: str, names: dict[str, str | None] | dict[str, str]) -> str | None:
    upper = word.upper()
    return names.get(upper if upper in _ANY_CASE else word)


def formatted_time(time: str, pattern: str) -> str:
    """Return the SQL of `to_char(time, pattern)`.

    Example:
        >>> formatted_time("ts", "YYYY-MM-DD HH24:MI")
        "DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm')"
        >>> formatted_time("ts", 'Q"th" MON')
        "CONCAT(CAST(QUARTER(ts) AS STRING), 'th ', UPPER(DATE_FORMAT(ts, 'MMM')))"
    """
    texts: list[str] = []
    letters, has_letters = "", False

    def end_letters() -> None:
        nonlocal letters, has_letters
        if letters:
            shown = f"DATE_FORMAT({time}, {quote_string(letters)})" if has_letters else ""
            texts.append(shown or quote_string(_plain(letters)))
        letters, has_letters = "", False

    for is_word, text in _parts(pattern):
        if not is_word:
            letters += _quoted(text)
        elif (simple := _known(text, _SIMPLE)) is not None:
            letters += simple
            has_letters = True
        elif (computed := _known(text, _COMPUTED)) is not None:
            end_letters()
            texts.append(computed.format(time))
        else:
            raise _unknown("to_char", text)
    end_letters()
    if not texts:
        return "''"
    return texts[0] if len(texts) == 1 else f"CONCAT({', '.join(texts)})"


def reading_pattern(function: str, pattern: str) -> str:
    """Return Spark's pattern to read a time with a template.

    Example:
        >>> reading_pattern("to_timestamp", "DD Mon YYYY")
        'dd MMM yyyy'
    """
    letters = ""
    for is_word, text in _parts(pattern):
        word = _known(text, _SIMPLE) if is_word else None
        if is_word and word is None and text.upper() in ("MON", "DY", "MONTH", "DAY"):
            word = {"MON": "MMM", "DY": "E", "MONTH": "MMMM", "DAY": "EEEE"}[text.upper()]
        if is_word and word is None:
            raise _unknown(function, text)
        letters += word if word is not None else _quoted(text)
    return letters


def _quoted(text: str) -> str:
    return "".join(
        f"'{char}'" if char.isalpha() else "''" if char == "'" else char for char in text
    )


def _plain(letters: str) -> str:
    return re.sub(r"'([^'])'", r"\1", letters).replace("''", "'")


def _unknown(function: str, word: str) -> Exception:
    return unsupported(f"the server's {function} has no template pattern {word}")


# -- regular expressions ---------------------------------------------------------------------------

_CLASSES = {
    "alnum": r"\p{Alnum}", "alpha": r"\p{Alpha}", "blank": r"\p{Blank}", "cntrl": r"\p{Cntrl}",
    "digit": r"\p{Digit}", "graph": r"\p{Graph}", "lower": r"\p{Lower}", "print": r"\p{Print}",
    "punct": r"\p{Punct}", "space": r"\s", "upper": r"\p{Upper}", "xdigit": r"\p{XDigit}",
}  # fmt: skip
_WORD_ENDS = re.compile(r"(?<!\\)((?:\\\\)*)\\([myMY])")
_PREFIX = re.compile(r"\*\*\*|\(\?(?![:=!])")


def java_pattern(pattern: str) -> str:
    r"""Return a regular expression as Java reads it.

    Example:
        >>> java_pattern(r"^[[:alpha:]_]+\M")
        '^[\\p{Alpha}_]+\\b'
    """
    if _PREFIX.search(pattern):
        raise unsupported(f"the server does not read the options in the pattern '{pattern}'")
    ends = {"m": r"\\b", "M": r"\\b", "y": r"\\b", "Y": r"\\B"}
    read = _WORD_ENDS.sub(lambda match: match[1] + ends[match[2]].replace("\\\\", "\\"), pattern)
    return re.sub(r"\[:(\w+):\]", lambda match: _CLASSES.get(match[1], match[0]), read)


def java_replacement(text: str) -> str:
    r"""Return the replacement of regexp_replace as Java reads it.

    Example:
        >>> java_replacement(r"\2-\1 $")
        '$2-$1 \\$'
    """
    return re.sub(
        r"\\(\d)|\\&|\\\\|\$",
        lambda match: (
            f"${match[1]}" if match[1] else {"\\&": "$0", "$": "\\$"}.get(match[0], "\\\\")
        ),
        text,
    )
