"""Parsing of JSON in Python, and detection of text beyond the limits of Spark's reader."""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecoder
from typing import Any

from runtime.options.formats import MAX_JSON_DIGITS

# Default nesting limit of Spark's reader
MAX_LEVELS = 1000
# Digits of the widest DECIMAL
_MAX_DIGITS = 38
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(rf"{_TEXT.pattern}|[\[{{]|[\]}}]")
_NUMBER = re.compile(r"\d+")


class NestedTooDeepError(ValueError):
    """JSON text nested deeper than Python or Spark reads."""


def load_json(text: str) -> Any:
    """Parse a JSON text.

    An integer too large for every SQL type becomes a str, because Python refuses integers of 5,000
    digits.

    Raises:
        NestedTooDeepError: The text is nested too deeply.
        ValueError: The text is not JSON.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise NestedTooDeepError(_too_deep(text)) from error


def load_json_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value at a position of a text. Return it and its end. See `load_json`."""
    try:
        return _DECODER.raw_decode(text, start)
    except RecursionError as error:
        raise NestedTooDeepError(_too_deep(text[start:])) from error


def excess_of(text: str) -> tuple[str, str] | None:
    """Return the limit of Spark's reader that a text exceeds, and the option that raises it."""
    depth = nesting_depth(text)
    if depth > MAX_LEVELS:
        return _too_deep(text), f"'json.maxNestingDepth' = '{depth}'"
    longest = max(map(len, _NUMBER.findall(_TEXT.sub("", text))), default=0)
    if longest > MAX_JSON_DIGITS:
        return f"has a number of {longest:,} digits", f"'json.maxNumLen' = '{longest}'"
    return None


def nesting_depth(text: str) -> int:
    """Return the maximum nesting depth of a JSON text, which may be truncated."""
    depth = deepest = 0
    for token in _BRACKETS.finditer(text):
        if (first := token[0][0]) == '"':
            continue
        depth += 1 if first in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _too_deep(text: str) -> str:
    return f"is nested {nesting_depth(text):,} levels deep"


def _integer(text: str) -> int | str:
    return int(text) if len(text.lstrip("-")) <= _MAX_DIGITS else text


_DECODER: JSONDecoder = json.JSONDecoder(parse_int=_integer)
