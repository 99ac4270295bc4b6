"""Parse lines of JSON like Jackson in Spark's reader.

Python's parser reads most lines. The others are read here token by token: strings in single quotes,
which Spark accepts, and nested values, whose text a STRING column takes verbatim.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable
from typing import Any

# Lines of a file, or of a table, whose field names are sampled
SAMPLED_LINES = 100
# Default limits of Spark's reader
MAX_LEVELS = 1000
MAX_DIGITS = 100_000
_BLANK = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_SINGLE = re.compile(r"'((?:[^'\\\x00-\x1f]|\\(?:[\"'\\/bfnrt]|u[0-9a-fA-F]{4}))*)'")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"true|false|null|NaN|[+-]?Infinity|[+-]INF")
# Characters that may follow a number or word
_AFTER = re.compile(r"[ \t\n\r,\]}]|\Z")
_ESCAPE_OR_QUOTE = re.compile(r'\\.|"')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Integer(str):
    """Text of an integer."""

    __slots__ = ()


class Fraction(str):
    """Text of a number with a point or an exponent."""

    __slots__ = ()


class Special(str):
    """Text of a number that JSON does not have: NaN or an infinity."""

    __slots__ = ()


class Nested(str):
    """Text of an array or an object."""

    __slots__ = ()


# A nested value is `Nested` or a list or tuple
Token = str | bool | None | tuple[Any, ...] | list[Any]
# Names and values of an object's fields in order; a name may occur several times
Object = tuple[tuple[str, Token], ...]


def parse_record(line: str, verbatim: Container[str] = ()) -> list[Object] | None:
    """Return the objects of a line, or None if Spark rejects it.

    A line is an object or an array of objects; text after it is ignored. A blank line has no
    object. Nested values are `Nested` in fields of `verbatim`.

    Args:
        line: Line without its end.
        verbatim: Names of fields whose nested values are required as text.
    """
    start = _skip(line, 1 if line.startswith("\ufeff") else 0)
    if start == len(line):
        return []
    if line.count("[") + line.count("{") <= MAX_LEVELS:
        try:
            root, _ = _DECODER.raw_decode(line, start)
        except (ValueError, RecursionError):
            return _parse_slowly(line, start)
        objects = _objects(root)
        if objects is None or not any(
            isinstance(value, list | tuple) and name in verbatim
            for fields in objects
            for name, value in fields
        ):
            return objects
    return _parse_slowly(line, start)


def spellings(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the objects' fields in lines, by the name in lower case."""
    names: dict[str, list[str]] = {}
    for name in dict.fromkeys(
        name for line in lines for fields in parse_record(line) or () for name, _ in fields
    ):
        names.setdefault(name.lower(), []).append(name)
    return names


def as_text(token: Token) -> str | None:
    """Return the value of a field as text, as a STRING column stores it."""
    if token is None or isinstance(token, bool):
        return {None: None, True: "true", False: "false"}[token]
    assert isinstance(token, str), "nested values of texts are verbatim"
    # Java replaces half of a surrogate pair when it encodes a text
    return token if token.isascii() else _LONE_SURROGATE.sub("?", token)


def _objects(root: Any) -> list[Object] | None:
    if isinstance(root, tuple):
        return [root]
    if not isinstance(root, list) or not all(isinstance(part, tuple) for part in root):
        return None
    return root


def _number(kind: type[str]) -> Any:
    def checked(text: str) -> str:
        if len(text) > MAX_DIGITS:
            raise ValueError("the number is too long")
        return kind(text)

    return checked


_DECODER = json.JSONDecoder(
    object_pairs_hook=tuple,
    parse_int=_number(Integer),
    parse_float=_number(Fraction),
    parse_constant=Special,
)


class _RejectedError(Exception):
    """Error when Spark rejects a line."""


def _parse_slowly(line: str, start: int) -> list[Object] | None:
    try:
        if line[start] == "{":
            fields, _ = _object(line, start, 1)
            return [fields]
        if line[start] != "[":
            return None
        objects = []
        place = _skip(line, start + 1)
        if line[place : place + 1] == "]":
            return []
        while True:
            if line[place : place + 1] != "{":
                return None
            fields, place = _object(line, place, 2)
            objects.append(fields)
            place, is_last = _next(line, place, "]")
            if is_last:
                return objects
    except _RejectedError:
        return None


def _object(line: str, start: int, depth: int) -> tuple[Object, int]:
    """Return the fields of an object and the place after it."""
    if depth > MAX_LEVELS:
        raise _RejectedError
    fields: list[tuple[str, Token]] = []
    place = _skip(line, start + 1)
    if line[place : place + 1] == "}":
        return (), place + 1
    while True:
        name, place = _string(line, place)
        place = _skip(line, place)
        if line[place : place + 1] != ":":
            raise _RejectedError
        value, place = _value(line, _skip(line, place + 1), depth)
        fields.append((name, value))
        place, is_last = _next(line, place, "}")
        if is_last:
            return tuple(fields), place


def _value(line: str, place: int, depth: int) -> tuple[Token, int]:
    """Return a value and the place after it."""
    sign = line[place : place + 1]
    if sign in ('"', "'") and sign:
        return _string(line, place)
    if sign == "{":
        _, end = _object(line, place, depth + 1)
        return Nested(line[place:end]), end
    if sign == "[":
        end = _array(line, place, depth + 1)
        return Nested(line[place:end]), end
    match = _NUMBER.match(line, place)
    if match is not None and _AFTER.match(line, match.end()):
        if len(match[0]) > MAX_DIGITS:
            raise _RejectedError
        is_whole = match[1] is None and match[2] is None
        return (Integer if is_whole else Fraction)(match[0]), match.end()
    match = _WORD.match(line, place)
    if match is None or not _AFTER.match(line, match.end()):
        raise _RejectedError
    words: dict[str, Token] = {"true": True, "false": False, "null": None}
    return words.get(match[0], Special(match[0])), match.end()


def _array(line: str, start: int, depth: int) -> int:
    """Check an array and return the place after it."""
    if depth > MAX_LEVELS:
        raise _RejectedError
    place = _skip(line, start + 1)
    if line[place : place + 1] == "]":
        return place + 1
    while True:
        _, place = _value(line, place, depth)
        place, is_last = _next(line, place, "]")
        if is_last:
            return place


def _next(line: str, place: int, end: str) -> tuple[int, bool]:
    """Return the place after a comma or the end of an array or object, and whether it was the end.

    Args:
        line: The line.
        place: Place after a value.
        end: Closing bracket.
    """
    place = _skip(line, place)
    sign = line[place : place + 1]
    if sign == end:
        return place + 1, True
    if sign != ",":
        raise _RejectedError
    return _skip(line, place + 1), False


def _string(line: str, place: int) -> tuple[str, int]:
    match = _STRING.match(line, place) or _SINGLE.match(line, place)
    if match is None:
        raise _RejectedError
    text = match[1]
    if "\\" in text:
        text = json.loads(f'"{_ESCAPE_OR_QUOTE.sub(_in_double_quotes, text)}"')
    return text, match.end()


def _in_double_quotes(match: re.Match[str]) -> str:
    """Return an escape or a quote as in a text in double quotes."""
    return {'"': '\\"', "\\'": "'"}.get(match[0], match[0])


def _skip(line: str, place: int) -> int:
    """Return the place after white space."""
    match = _BLANK.match(line, place)
    assert match is not None
    return match.end()
